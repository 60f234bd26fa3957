// The page: draws the graph with Cytoscape.js and answers mouse, keys and search.
"use strict";

(() => {
  const { directed, colour_by: colourBy, nodes, edges, groups } = JSON.parse(document.getElementById("data").textContent);
  const at = (id) => document.getElementById(id);
  const root = document.documentElement, panel = at("panel"), picture = at("picture"), query = at("query");
  const still = matchMedia("(prefers-reduced-motion: reduce)").matches;
  const fold = (text) => text.normalize("NFKD").replace(/\p{M}/gu, "").toLowerCase();
  const haystack = nodes.caption.map((caption, i) => fold(`${caption}\n${nodes.text[i]}\n${nodes.id[i]}`));
  const across = (i) => (nodes.score[i] === null ? (nodes.hops[i] === 0 ? 24 : 18) : 20 + 26 * nodes.size[i]);
  const state = { theme: matchMedia("(prefers-color-scheme: dark)").matches ? "dark" : "light", colour: colourBy, pressed: null, matches: [], match: -1, zoom: 0 };

  const cy = cytoscape({
    container: picture, minZoom: 0.03, maxZoom: 4, layout: { name: "preset" }, boxSelectionEnabled: false, autounselectify: true,
    elements: [
      ...nodes.id.map((_, i) => ({ group: "nodes", data: { id: `n${i}`, i, size: nodes.size[i], across: across(i), seed: nodes.hops[i] === 0 ? 1 : 0, shown: "", fill: "#888" }, position: { x: nodes.x[i], y: nodes.y[i] } })),
      ...edges.id.map((_, i) => ({ group: "edges", data: { id: `e${i}`, i, source: `n${edges.source[i]}`, target: `n${edges.target[i]}`, relation: edges.relation[i], shown: "" } })),
    ],
  });
  for (const node of cy.nodes()) {
    const caption = wrapped(nodes.caption[node.data("i")], FONT.node, node.data("seed") ? 600 : 400);
    node.scratch("caption", caption).data("shown", caption.text);
  }
  for (const edge of cy.edges()) {
    ruler.font = `400 ${FONT.edge}px ${FONT.family}`;
    const relation = edge.data("relation"), short = relation.length > 28 ? `${relation.slice(0, 27)}…` : relation;
    edge.scratch("caption", { wide: ruler.measureText(short).width, high: FONT.edge * 1.2 }).data("shown", short);
  }
  const order = cy.nodes().toArray().sort((a, b) => b.data("seed") - a.data("seed") || b.data("size") - a.data("size") || b.degree() - a.degree() || a.data("i") - b.data("i"));

  // ---- looks
  const ink = (name) => getComputedStyle(root).getPropertyValue(`--${name}`).trim();
  const group = (i) => groups[state.colour][nodes.by[state.colour][i]];
  function sheet() {
    const zoom = Math.min(1, cy.zoom()), crowd = cy.nodes().length > 150, halo = { "text-outline-color": ink("surface"), "text-outline-width": 2.5 / zoom, "text-outline-opacity": 0.95 };
    return [
      { selector: "node", style: { width: "data(across)", height: "data(across)", "background-color": "data(fill)", "border-width": 1.5, "border-color": ink("surface"),
        "font-family": FONT.family, "font-size": FONT.node / zoom, color: ink("ink"), "text-wrap": "wrap", "text-max-width": 2000 / zoom, ...halo, "z-index": 10 } },
      { selector: "node[seed = 1]", style: { "outline-width": 2, "outline-offset": 1.5, "outline-color": ink("ink"), "font-weight": 600, "z-index": 20 } },
      { selector: "edge", style: { width: Math.max(1.4, 0.7 / zoom), "line-color": ink("soft"), "line-opacity": crowd ? 0.5 : 0.55, "curve-style": "bezier", "control-point-step-size": 34,
        "target-arrow-shape": directed ? "triangle" : "none", "target-arrow-color": ink("soft"), "arrow-scale": crowd ? 0.7 : 0.9, "font-family": FONT.family,
        "font-size": FONT.edge / zoom, color: ink("soft"), "text-rotation": "autorotate", ...halo, "loop-direction": "-45deg", "loop-sweep": "60deg" } },
      { selector: "edge:loop", style: { "text-rotation": 0 } },
      { selector: ".below", style: { label: "data(shown)", "text-valign": "bottom", "text-margin-y": 3.5 + 4 / zoom } },
      { selector: ".above", style: { label: "data(shown)", "text-valign": "top", "text-margin-y": -3.5 - 4 / zoom } },
      { selector: ".right", style: { label: "data(shown)", "text-valign": "center", "text-halign": "right", "text-margin-x": 3.5 + 4 / zoom } },
      { selector: ".left", style: { label: "data(shown)", "text-valign": "center", "text-halign": "left", "text-margin-x": -3.5 - 4 / zoom } },
      { selector: ".named", style: { label: "data(shown)" } },
      { selector: ".faded", style: { opacity: 0.13, "z-index": 1 } },
      { selector: "node.match", style: { "underlay-color": "#f5b700", "underlay-opacity": 0.55, "underlay-padding": 7, "underlay-shape": "ellipse" } },
      { selector: "node.chosen", style: { "underlay-color": ink("accent"), "underlay-opacity": 0.45, "underlay-padding": 9, "underlay-shape": "ellipse", "z-index": 30 } },
      { selector: "edge.near", style: { "line-color": ink("accent"), "target-arrow-color": ink("accent"), "line-opacity": 0.9, color: ink("ink"), "z-index": 25 } },
      { selector: "edge.chosen", style: { "line-color": ink("accent"), "target-arrow-color": ink("accent"), width: 3, "line-opacity": 1, color: ink("ink"), "z-index": 30 } },
    ];
  }
  function paint() {
    root.dataset.theme = state.theme;
    at("theme").textContent = state.theme === "dark" ? "Light" : "Dark";
    cy.batch(() => cy.nodes().forEach((node) => node.data("fill", group(node.data("i"))[state.theme])));
    restyle();
    legend();
  }
  function restyle() {
    state.zoom = cy.zoom();
    cy.style().fromJson(sheet()).update();
  }
  function captions() {
    if (Math.min(1, cy.zoom()) !== Math.min(1, state.zoom)) restyle();
    const first = cy.$(".chosen, .hovered").union(state.match >= 0 ? cy.$id(`n${state.matches[state.match]}`) : cy.collection());
    const shown = chooseCaptions(cy, order, at("relations").checked, first);
    cy.batch(() => cy.elements().forEach((one) => {
      const side = shown.get(one.id()), before = one.scratch("side");
      if (side === before) return;
      if (before) one.removeClass(before);
      if (side) one.addClass(side);
      one.scratch("side", side);
    }));
  }
  let waiting = 0;
  function soon(wait = 60) { clearTimeout(waiting); waiting = setTimeout(captions, wait); }

  function legend() {
    const box = at("legend"), counts = new Map();
    for (const place of nodes.by[state.colour]) counts.set(place, (counts.get(place) || 0) + 1);
    box.replaceChildren(...groups[state.colour].map((one, place) =>
      element("button", { type: "button", "aria-pressed": String(state.pressed === place), title: "Show these only", click: () => { state.pressed = state.pressed === place ? null : place; legend(); emphasise(); } },
        element("i", { class: "dot", background: one[state.theme] }), element("span", { class: "name" }, one.name), element("span", { class: "count" }, String(counts.get(place) || 0)))));
    if (nodes.hops.includes(0)) box.append(element("p", {}, element("i", { class: "dot ring" }), "matched the query (seed)"));
    if (new Set(nodes.score.filter((score) => score !== null)).size > 1) {
      const dots = [5, 8, 11].map((wide) => { const dot = element("i", {}); dot.style.width = dot.style.height = `${wide}px`; return dot; });
      box.append(element("p", {}, element("span", { class: "sizes" }, ...dots), "larger: higher score"));
    }
  }

  // ---- what stands out: the chosen element and its neighbours, else the matches, else one group of the legend
  function emphasise() {
    const chosen = cy.$(".chosen");
    let kept = cy.elements();
    if (chosen.nonempty()) kept = chosen.isNode() ? chosen.closedNeighborhood() : chosen.union(chosen.connectedNodes());
    else if (query.value.trim()) kept = cy.$(".match");
    else if (state.pressed !== null) {
      const members = cy.nodes().filter((node) => nodes.by[state.colour][node.data("i")] === state.pressed);
      kept = members.union(members.edgesWith(members));
    }
    cy.batch(() => {
      cy.elements().removeClass("faded near");
      cy.elements().difference(kept).addClass("faded");
      if (chosen.nonempty() && chosen.isNode()) chosen.connectedEdges().addClass("near");
    });
    soon(0);
  }
  function show(eles, zoomTo) {
    const padding = Math.min(70, cy.width() / 10, cy.height() / 10);
    const box = eles.boundingBox({ includeLabels: false }), fitting = Math.min((cy.width() - 2 * padding) / Math.max(box.w, 1), (cy.height() - 2 * padding) / Math.max(box.h, 1));
    const zoom = Math.max(cy.minZoom(), Math.min(fitting, zoomTo || 1.8));
    const view = { zoom, pan: { x: cy.width() / 2 - zoom * (box.x1 + box.x2) / 2, y: cy.height() / 2 - zoom * (box.y1 + box.y2) / 2 } };
    cy.stop();
    if (still) cy.viewport(view); else cy.animate(view, { duration: 260 });
  }
  function choose(one, focus) {
    cy.$(".chosen").removeClass("chosen");
    panel.hidden = !one;
    if (one) {
      one.addClass("chosen");
      const i = one.data("i");
      panel.replaceChildren(...(one.isNode() ? nodePanel(nodes, i, group(i)[state.theme], links(one), (node) => choose(cy.$id(`n${node}`), true), () => choose(null)) : edgePanel(nodes, edges, i, directed, (node) => choose(cy.$id(`n${node}`), true), () => choose(null))));
      panel.scrollTop = 0;
      at("status").textContent = one.isNode() ? nodes.caption[i] : `${nodes.caption[edges.source[i]]} ${edges.relation[i]} ${nodes.caption[edges.target[i]]}`;
    }
    cy.resize();
    emphasise();
    if (one && !inView(one)) { cy.stop(); const to = { center: { eles: one } }; if (still) cy.center(one); else cy.animate(to, { duration: 220 }); }
    if (focus) (one ? panel : picture).focus();
  }
  function inView(one) {
    const box = one.renderedBoundingBox({ includeLabels: false });
    return box.x1 > 10 && box.y1 > 10 && box.x2 < cy.width() - 10 && box.y2 < cy.height() - 10;
  }
  function links(node) {
    return node.connectedEdges().map((edge) => {
      const out = edge.source().same(node), other = out ? edge.target() : edge.source();
      return [edge.data("relation"), directed ? (out ? "→" : "←") : "—", other.data("i"), edge.data("i")];
    });
  }

  // ---- search
  function search() {
    const wanted = fold(query.value.trim());
    state.matches = wanted ? haystack.flatMap((text, i) => (text.includes(wanted) ? [i] : [])) : [];
    state.match = -1;
    const places = new Map(order.map((node, place) => [node.data("i"), place]));
    state.matches.sort((a, b) => places.get(a) - places.get(b));
    if (cy.$(".chosen").nonempty()) choose(null);
    cy.batch(() => {
      cy.nodes().removeClass("match");
      for (const i of state.matches) cy.$id(`n${i}`).addClass("match");
    });
    at("found").textContent = wanted ? (state.matches.length === 1 ? "1 match" : `${state.matches.length || "no"} matches`) : "";
    emphasise();
    if (state.matches.length) show(cy.$("node.match"));
    else if (!wanted) show(cy.elements());
  }
  function next(step) {
    if (!state.matches.length) return;
    state.match = (state.match + step + state.matches.length) % state.matches.length;
    const node = cy.$id(`n${state.matches[state.match]}`);
    choose(node);
    show(node.closedNeighborhood(), 1.3);
    at("found").textContent = `${state.match + 1} of ${state.matches.length}`;
  }
  query.addEventListener("input", search);
  at("search").addEventListener("submit", (event) => event.preventDefault());
  query.addEventListener("keydown", (event) => {
    if (event.key === "Enter") { event.preventDefault(); next(event.shiftKey ? -1 : 1); }
  });

  // ---- mouse and keys
  cy.on("tap", "node, edge", (event) => choose(event.target));
  cy.on("tap", (event) => { if (event.target === cy) choose(null); });
  cy.on("mouseover", "node, edge", (event) => { event.target.addClass("hovered"); picture.style.cursor = "pointer"; soon(); });
  cy.on("mouseout", "node, edge", (event) => { event.target.removeClass("hovered"); picture.style.cursor = ""; soon(); });
  cy.on("viewport resize", () => soon());
  cy.on("free", "node", () => { cy.nodes().forEach((node) => node.removeScratch("sides")); soon(); });

  const WAYS = { ArrowLeft: [-1, 0], ArrowRight: [1, 0], ArrowUp: [0, -1], ArrowDown: [0, 1] };
  function walk([dx, dy]) {
    const now = cy.$("node.chosen");
    if (now.empty()) { if (order.length) choose(order[0]); return; }
    const from = now.position();
    let best = null, least = Infinity;
    for (const node of order) {
      const to = node.position(), along = (to.x - from.x) * dx + (to.y - from.y) * dy, off = Math.abs((to.x - from.x) * dy + (to.y - from.y) * dx);
      if (along > 1 && along + 2 * off < least) { least = along + 2 * off; best = node; }
    }
    if (best) choose(best);
  }
  picture.addEventListener("keydown", (event) => {
    if (event.ctrlKey || event.metaKey || event.altKey) return;
    const middle = { x: cy.width() / 2, y: cy.height() / 2 };
    if (WAYS[event.key]) walk(WAYS[event.key]);
    else if (event.key === "Enter") { if (!panel.hidden) panel.focus(); }
    else if (event.key === "+" || event.key === "=") cy.zoom({ level: cy.zoom() * 1.25, renderedPosition: middle });
    else if (event.key === "-") cy.zoom({ level: cy.zoom() / 1.25, renderedPosition: middle });
    else if (event.key === "0") show(cy.elements());
    else return;
    event.preventDefault();
  });
  document.addEventListener("keydown", (event) => {
    if (event.key === "Escape") {
      if (!panel.hidden) choose(null, true);
      else if (query.value) { query.value = ""; search(); }
    } else if (event.key === "/" && !event.ctrlKey && !event.metaKey && document.activeElement !== query) { event.preventDefault(); query.select(); query.focus(); }
  });

  // ---- tools
  for (const choice of document.querySelectorAll("#colour input")) {
    choice.checked = choice.value === state.colour;
    choice.addEventListener("change", () => { state.colour = choice.value; state.pressed = null; paint(); emphasise(); });
  }
  at("relations").addEventListener("change", captions);
  at("fit").addEventListener("click", () => show(cy.elements()));
  at("theme").addEventListener("click", () => { state.theme = state.theme === "dark" ? "light" : "dark"; paint(); });
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", (event) => { state.theme = event.matches ? "dark" : "light"; paint(); });
  at("save").addEventListener("click", async () => {
    const link = element("a", { href: URL.createObjectURL(await cy.png({ output: "blob-promise", scale: 3, bg: ink("surface") })), download: "graph.png" });
    link.click();
    URL.revokeObjectURL(link.href);
  });

  const seeds = nodes.hops.filter((hops) => hops === 0).length;
  const counted = (count, word) => `${count} ${word}${count === 1 ? "" : "s"}`;
  at("counts").textContent = [counted(nodes.id.length, "node"), counted(edges.id.length, "edge"), ...(seeds ? [counted(seeds, "seed")] : [])].join(", ");
  paint();
  cy.ready(() => {
    if (cy.nodes().nonempty()) { const box = cy.elements(); cy.stop(); const padding = 60; cy.fit(box, padding); if (cy.zoom() > 1.8) { cy.zoom(1.8); cy.center(box); } }
    captions();
    window.tercet = { cy };
    root.dataset.ready = "true";
  });
})();
