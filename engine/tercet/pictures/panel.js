// The panel beside the picture: all that is known of one node or edge. Text enters the page as text only.
"use strict";

function element(tag, attributes, ...children) {
  const made = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes || {})) {
    if (name === "click") made.addEventListener("click", value);
    else if (name === "background") made.style.background = value;
    else made.setAttribute(name, value);
  }
  for (const child of children) if (child !== null) made.append(child);
  return made;
}

const asText = (value) => (typeof value === "string" ? value : JSON.stringify(value, null, 1));
const number = (value) => (Number.isInteger(value) ? String(value) : String(Number(value.toPrecision(6))));

// A heading with a list of names and values, or nothing when there is nothing to say.
function facts(heading, pairs) {
  const kept = pairs.filter(([, value]) => value !== null && value !== undefined && value !== "");
  if (!kept.length) return [];
  const list = element("dl", {});
  for (const [name, value] of kept) list.append(element("dt", {}, name), element("dd", {}, typeof value === "number" ? number(value) : asText(value)));
  return heading ? [element("h3", {}, heading), list] : [list];
}

function paragraph(heading, text) {
  return text ? [element("h3", {}, heading), element("p", { class: "text" }, text)] : [];
}

function heading(caption, close) {
  return element("div", { class: "top" }, element("h2", {}, caption), element("button", { type: "button", class: "close", "aria-label": "Close the panel", click: close }, "×"));
}

// What the panel shows for node i; `links` are [relation, outgoing, other node, edge].
function nodePanel(nodes, i, colour, links, go, close) {
  const tags = element("p", { class: "tags" }, ...nodes.labels[i].map((label) => element("span", {}, label)));
  if (tags.firstChild) tags.firstChild.prepend(element("i", { class: "dot", background: colour }));
  const hops = nodes.hops[i];
  const rows = links.map(([relation, way, other, edge]) =>
    element("li", {}, element("button", { type: "button", click: () => go(other, edge) },
      element("span", { class: "how" }, `${way} ${relation || "related"}`), element("span", { class: "who" }, nodes.caption[other]))));
  return [
    heading(nodes.caption[i], close),
    ...(nodes.labels[i].length ? [tags] : []),
    ...paragraph("Text", nodes.text[i]),
    ...facts("Details", [["score", nodes.score[i]], ["hops", hops === 0 ? "0 (seed)" : hops], ["id", nodes.id[i]], ["uri", nodes.uri[i]]]),
    ...facts("Parts of the score", Object.entries(nodes.parts[i])),
    ...facts("Properties", Object.entries(nodes.properties[i])),
    ...(rows.length ? [element("h3", {}, rows.length === 1 ? "1 relation" : `${rows.length} relations`), element("ul", {}, ...rows)] : []),
  ];
}

function edgePanel(nodes, edges, i, directed, go, close) {
  const ends = [["from", edges.source[i]], ["to", edges.target[i]]].map(([how, node]) =>
    element("li", {}, element("button", { type: "button", click: () => go(node) },
      element("span", { class: "how" }, directed ? how : "with"), element("span", { class: "who" }, nodes.caption[node]))));
  return [
    heading(edges.relation[i] || "Relation", close),
    element("h3", {}, "Between"), element("ul", {}, ...ends),
    ...paragraph("Text", edges.text[i]),
    ...facts("Details", [["score", edges.score[i]], ["id", edges.id[i]], ["uri", edges.uri[i]]]),
    ...facts("Properties", Object.entries(edges.properties[i])),
  ];
}
