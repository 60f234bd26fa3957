"""The style of a report page: light and dark, wide and narrow, on screen and on paper."""

STYLE = """
:root {
  --paper: #fcfcfb; --ink: #1c1d1f; --soft: #63666c; --line: #e3e3df; --panel: #ffffff; --good: #1a7f4b;
  --bad: #b3372b;
  --base: #8b8e94; --c0: #2f6fb7; --c1: #c8641b; --c2: #2c8c6b; --c3: #8455a8; --c4: #b8902a; --c5: #4aa3bd;
  --heat: 47, 111, 183;
}
@media (prefers-color-scheme: dark) {
  :root {
    --paper: #141517; --ink: #e7e7e4; --soft: #9a9da3; --line: #2d2f33; --panel: #1b1c1f; --good: #5cc48d;
  --bad: #ef8377;
    --base: #83868c; --c0: #6ea8e6; --c1: #ec985a; --c2: #5fc3a0; --c3: #bb90dc; --c4: #ddb95a; --c5: #7cc8dd;
  --heat: 110, 168, 230;
  }
}
* { box-sizing: border-box }
body { margin: 0; background: var(--paper); color: var(--ink);
  font: 15px/1.55 system-ui, -apple-system, "Segoe UI", sans-serif }
main { max-width: 60rem; margin: 0 auto; padding: 2.5rem 1.25rem 4rem }
header { border-bottom: 1px solid var(--line); padding-bottom: 1.25rem; margin-bottom: 1.5rem }
.kicker { margin: 0; color: var(--soft); font-size: .8rem; letter-spacing: .06em; text-transform: uppercase }
h1 { margin: .1rem 0 .5rem; font-size: 1.9rem; line-height: 1.2; overflow-wrap: anywhere }
h2 { margin: 2.6rem 0 .7rem; font-size: 1.15rem }
.facts { margin: 0; color: var(--soft); font-size: .87rem }
.facts span { display: inline-block }
.tiles { display: grid; grid-template-columns: repeat(auto-fit, minmax(11rem, 1fr)); gap: .75rem }
.tile { background: var(--panel); border: 1px solid var(--line); border-radius: .5rem; padding: .75rem .9rem;
  min-width: 0 }
.tile span, .tile small { display: block; color: var(--soft); font-size: .8rem; overflow-wrap: anywhere }
.tile strong { display: block; font-size: 1.5rem; line-height: 1.3; font-weight: 600;
  font-variant-numeric: tabular-nums }
.scroll { overflow-x: auto; background: var(--panel); border: 1px solid var(--line); border-radius: .5rem }
table { border-collapse: collapse; width: 100%; font-size: .85rem; font-variant-numeric: tabular-nums }
th, td { padding: .4rem .7rem; text-align: left; white-space: nowrap; border-bottom: 1px solid var(--line) }
tbody tr:last-child > * { border-bottom: 0 }
thead th { color: var(--soft); font-weight: 500; font-size: .78rem }
tbody th { font-weight: 500; white-space: normal; min-width: 12rem; max-width: 19rem; overflow-wrap: anywhere }
tbody th small { display: block; color: var(--soft); font-weight: 400; font-size: .76rem; line-height: 1.35 }
th:first-child { position: sticky; left: 0; background: var(--panel) }
td.n, th.n { text-align: right }
td.left, td.wide { white-space: normal; min-width: 14rem; overflow-wrap: anywhere }
.base { color: var(--soft); font-weight: 400 }
.best { font-weight: 700 }
.none { color: var(--soft) }
.good { color: var(--good) }
.bad { color: var(--bad) }
.note, figcaption { overflow-wrap: anywhere; color: var(--soft); font-size: .85rem; margin: .3rem 0 .6rem }
figure { margin: 0 0 .9rem; background: var(--panel); border: 1px solid var(--line); border-radius: .5rem;
  padding: .9rem .9rem .4rem }
svg { display: block; width: 100%; height: auto }
svg text { fill: var(--ink); font-size: 12px; font-family: inherit }
svg .tick, svg .axis { fill: var(--soft); font-size: 11px }
svg .label { font-size: 11px }
svg .value { font-variant-numeric: tabular-nums }
.grid { stroke: var(--line); stroke-width: 1 }
.pareto { fill: none; stroke: var(--soft); stroke-width: 1.25; stroke-dasharray: 4 3 }
.marker { stroke: var(--base); stroke-width: 1.25; stroke-dasharray: 4 3 }
.whisker { stroke: var(--ink); stroke-width: 1.25; fill: none; opacity: .75 }
.dot { stroke: var(--panel); stroke-width: 1.25 }
.dim { opacity: .55 }
.fill, .dot { fill: currentColor }
.c0 { color: var(--c0) } .c1 { color: var(--c1) } .c2 { color: var(--c2) }
.c3 { color: var(--c3) } .c4 { color: var(--c4) } .c5 { color: var(--c5) }
rect.base { color: var(--base) }
.better { color: var(--good) } .worse { color: var(--bad) } .same { color: var(--base) }
.keys { display: flex; flex-wrap: wrap; gap: .2rem 1rem; margin: 0 0 .5rem; font-size: .85rem }
.key::before { content: ""; display: inline-block; width: .65em; height: .65em; border-radius: 50%;
  background: currentColor; margin-right: .4em }
.key.base { color: var(--base) }
.key.base::before { border-radius: 0 }
.h0 { background: rgba(var(--heat), .02) } .h1 { background: rgba(var(--heat), .05) }
.h2 { background: rgba(var(--heat), .09) }
.h3 { background: rgba(var(--heat), .13) } .h4 { background: rgba(var(--heat), .17) }
.h5 { background: rgba(var(--heat), .22) }
.h6 { background: rgba(var(--heat), .27) } .h7 { background: rgba(var(--heat), .33) }
.h8 { background: rgba(var(--heat), .4) }
.h9 { background: rgba(var(--heat), .48) }
details { margin: .5rem 0; border: 1px solid var(--line); border-radius: .5rem; background: var(--panel);
  padding: .5rem .9rem }
details .scroll { border: 0 }
summary { cursor: pointer; font-size: .9rem }
pre { overflow-x: auto; font: 12.5px/1.5 ui-monospace, "Cascadia Mono", Menlo, monospace }
ul { padding-left: 1.2rem; font-size: .9rem; overflow-wrap: anywhere }
@media (max-width: 40rem) {
  main { padding: 1.5rem .8rem 3rem }
  h1 { font-size: 1.5rem }
  figure { overflow-x: auto }
  figure svg { min-width: 34rem }
  tbody th { min-width: 9rem; max-width: 10rem; font-size: .8rem }
}
@media print { body { background: #fff } .scroll, figure { break-inside: avoid } }
"""
