// Which captions are shown: those that fit without overlap, the weightiest first, at a size that can be read at any zoom.
"use strict";

const FONT = { node: 12.5, edge: 10.5, family: "system-ui, Segoe UI, Roboto, Noto Sans, sans-serif" };
const SIDES = ["below", "above", "right", "left"];
const WRAP = 132; // pixels

// Rectangles on the screen, found again by the squares they touch.
class Taken {
  constructor() { this.squares = new Map(); }
  *keys(box) {
    for (let x = Math.floor(box.x1 / 80); x <= Math.floor(box.x2 / 80); x++)
      for (let y = Math.floor(box.y1 / 80); y <= Math.floor(box.y2 / 80); y++) yield x * 100003 + y;
  }
  add(box) {
    for (const key of this.keys(box)) {
      if (!this.squares.has(key)) this.squares.set(key, []);
      this.squares.get(key).push(box);
    }
  }
  free(box, owner) {
    for (const key of this.keys(box))
      for (const other of this.squares.get(key) || [])
        if (other.owner !== owner && other.x1 < box.x2 && box.x1 < other.x2 && other.y1 < box.y2 && box.y1 < other.y2) return false;
    return true;
  }
}

const ruler = document.createElement("canvas").getContext("2d");

// The text broken into at most three lines of WRAP pixels, with its size.
function wrapped(text, size, weight) {
  ruler.font = `${weight} ${size}px ${FONT.family}`;
  const lines = [];
  let now = "";
  for (const word of text.split(" ")) {
    const longer = now ? `${now} ${word}` : word;
    if (now && ruler.measureText(longer).width > WRAP) { lines.push(now); now = word; } else now = longer;
  }
  lines.push(now);
  if (lines.length > 3) { lines.length = 3; lines[2] += " …"; }
  const wide = Math.max(...lines.map((part) => ruler.measureText(part).width));
  return { text: lines.join("\n"), wide, high: lines.length * size * 1.2 };
}

// Where a caption of `size` lies beside a disc on each side, in screen pixels.
function beside(side, x, y, radius, size) {
  const { wide, high } = size, gap = 4;
  if (side === "below") return { x1: x - wide / 2, x2: x + wide / 2, y1: y + radius + gap, y2: y + radius + gap + high };
  if (side === "above") return { x1: x - wide / 2, x2: x + wide / 2, y1: y - radius - gap - high, y2: y - radius - gap };
  if (side === "right") return { x1: x + radius + gap, x2: x + radius + gap + wide, y1: y - high / 2, y2: y + high / 2 };
  return { x1: x - radius - gap - wide, x2: x - radius - gap, y1: y - high / 2, y2: y + high / 2 };
}

// The sides of a node, those with the fewest edges first; worked out again when nodes have moved.
function sidesOf(node) {
  const known = node.scratch("sides");
  if (known) return known;
  const busy = { below: 0, above: 0, right: 0, left: 0 }, at = node.position();
  for (const edge of node.connectedEdges()) {
    if (edge.isLoop()) { busy.above++; busy.left++; continue; }
    const to = (edge.source().same(node) ? edge.target() : edge.source()).position(), dx = to.x - at.x, dy = to.y - at.y;
    if (Math.abs(dy) > 0.45 * Math.abs(dx)) busy[dy > 0 ? "below" : "above"]++;
    if (Math.abs(dx) > 1.2 * Math.abs(dy)) busy[dx > 0 ? "right" : "left"]++;
  }
  const sides = SIDES.slice().sort((a, b) => Math.min(busy[a], 3) - Math.min(busy[b], 3));
  node.scratch("sides", sides);
  return sides;
}

// Chooses the captions for what is seen now. `first` are nodes and edges whose caption must be seen.
function chooseCaptions(cy, order, withRelations, first) {
  const zoom = cy.zoom(), pan = cy.pan(), scale = Math.max(1, zoom), taken = new Taken(), small = new Taken();
  const wide = cy.width(), high = cy.height(), shown = new Map();
  const inside = (x, y) => x > -60 && y > -60 && x < wide + 60 && y < high + 60;
  const spots = new Map();
  for (const node of order) {
    const at = node.position(), x = at.x * zoom + pan.x, y = at.y * zoom + pan.y, radius = (node.data("across") / 2 + 3) * zoom;
    if (!inside(x, y) || node.hasClass("faded")) continue;
    spots.set(node.id(), { node, x, y, radius });
    const weighty = node.data("seed") || node.data("size") > 0; // their captions may cover the discs of others
    (weighty ? taken : small).add({ owner: node.id(), x1: x - radius, x2: x + radius, y1: y - radius, y2: y + radius });
  }
  const ranked = [...first.nodes().toArray().map((node) => node.id()), ...spots.keys()];
  for (const id of ranked) {
    const spot = spots.get(id);
    if (!spot || shown.has(id)) continue;
    const measure = spot.node.scratch("caption"), size = { wide: measure.wide * scale, high: measure.high * scale };
    const boxes = sidesOf(spot.node).map((side) => [side, { owner: id, ...beside(side, spot.x, spot.y, spot.radius, size) }]);
    const clear = boxes.filter(([, box]) => taken.free(box, id)), must = first.contains(spot.node);
    const found = clear.find(([, box]) => small.free(box, id)) || (spot.node.data("seed") || must ? clear[0] : null) || (must ? boxes[0] : null);
    if (found) { shown.set(id, found[0]); taken.add(found[1]); }
  }
  const named = [...first.edges().toArray(), ...cy.$("edge.near").toArray(), ...(withRelations ? cy.edges().toArray() : [])];
  for (const edge of named) {
    if (shown.has(edge.id()) || edge.hasClass("faded") || !edge.data("relation")) continue;
    const from = edge.source().position(), to = edge.target().position(), length = Math.hypot(from.x - to.x, from.y - to.y) * zoom;
    const measure = edge.scratch("caption"), long = measure.wide * scale + 8, thick = measure.high * scale;
    if (!edge.isLoop() && length < long + (edge.source().width() + edge.target().width()) * zoom / 2) continue;
    const middle = edge.midpoint(), x = middle.x * zoom + pan.x, y = middle.y * zoom + pan.y;
    if (!inside(x, y)) continue;
    const turn = edge.isLoop() ? 0 : Math.atan2(to.y - from.y, to.x - from.x);
    const box = slanted(x, y, long, thick, turn, edge.id());
    if (box.every((part) => taken.free(part, edge.id()) && small.free(part, edge.id())) || first.contains(edge)) { shown.set(edge.id(), "named"); box.forEach((part) => taken.add(part)); }
  }
  return shown;
}

// A slanted caption as a row of small squares along its line.
function slanted(x, y, long, thick, turn, owner) {
  const steps = Math.max(1, Math.ceil(long / thick) - 1), half = thick / 2, boxes = [];
  for (let i = 0; i <= steps; i++) {
    const along = (i / steps - 0.5) * (long - thick), cx = x + along * Math.cos(turn), cy = y + along * Math.sin(turn);
    boxes.push({ owner, x1: cx - half, x2: cx + half, y1: cy - half, y2: cy + half });
  }
  return boxes;
}
