"""The page's style sheet: light or dark as the reader has it, printable, nothing from the network."""

STYLE = """
:root { color-scheme: light dark;
  --paper: #fbfcfd; --card: #ffffff; --ink: #1d2733; --muted: #5c6875; --line: #dfe4e9; --soft: #f1f4f7;
  --accent: #0067a3; --ahead: #00785a; --level: #7a5a00; --behind: #b04a00; --unknown: #5c6875; }
@media (prefers-color-scheme: dark) { :root {
  --paper: #12171d; --card: #1a2129; --ink: #e3e9ef; --muted: #9aa7b4; --line: #2d3742; --soft: #222b35;
  --accent: #6bb7e8; --ahead: #3fc79f; --level: #e0b64a; --behind: #f0935a; --unknown: #9aa7b4; } }
* { box-sizing: border-box; }
body { margin: 0; background: var(--paper); color: var(--ink);
  font: 16px/1.55 system-ui, -apple-system, "Segoe UI", Roboto, "Helvetica Neue", "DejaVu Sans", sans-serif; }
main { max-width: 1080px; margin: 0 auto; padding: 2.4rem 1.4rem 4rem; }
h1 { font-size: 1.9rem; line-height: 1.2; margin: 0 0 .3rem; letter-spacing: -.01em;
  overflow-wrap: anywhere; }
h2 { font-size: 1.22rem; margin: 3rem 0 .6rem; padding-top: .9rem; border-top: 1px solid var(--line); }
h3 { font-size: 1rem; margin: 1.6rem 0 .5rem; }
p { margin: .4rem 0 .8rem; max-width: 88ch; }
a { color: var(--accent); text-decoration: none; } a:hover { text-decoration: underline; }
nav { margin: 1rem 0 0; font-size: .9rem; display: flex; flex-wrap: wrap; gap: .2rem 1.1rem; }
.muted, figcaption, .caption { color: var(--muted); font-size: .88rem; }
.tiles { display: flex; flex-wrap: wrap; gap: .7rem; margin: 1.2rem 0 1rem; padding: 0; list-style: none; }
.tiles li { background: var(--card); border: 1px solid var(--line); border-radius: 10px;
  padding: .55rem 1rem; }
.tiles b { display: block; font-size: 1.35rem; line-height: 1.25; font-variant-numeric: tabular-nums; }
.tiles span { color: var(--muted); font-size: .82rem; }
.chips { display: flex; flex-wrap: wrap; gap: .35rem; margin: .4rem 0; padding: 0; list-style: none;
  font-size: .85rem; }
.chips li { background: var(--soft); border-radius: 999px; padding: .08rem .7rem; overflow-wrap: anywhere; }
.chips i { color: var(--muted); font-style: normal; font-variant-numeric: tabular-nums; margin-left: .3rem; }
.verdict { border-left: 4px solid; background: var(--card); border-radius: 0 8px 8px 0; padding: .7rem 1rem;
  margin: 1rem 0 1.2rem; max-width: none; }
.ahead { border-color: var(--ahead); } .level { border-color: var(--level); }
.behind { border-color: var(--behind); } .unknown { border-color: var(--unknown); }
.scroll { overflow-x: auto; border: 1px solid var(--line); border-radius: 10px; background: var(--card); }
table { border-collapse: collapse; width: 100%; font-size: .9rem; }
th, td { padding: .5rem .7rem; text-align: right; white-space: nowrap; font-variant-numeric: tabular-nums; }
th:first-child, td:first-child { text-align: left; white-space: normal; min-width: 11rem;
  overflow-wrap: anywhere; padding-left: 1rem; }
th:last-child, td:last-child { padding-right: 1rem; }
thead th { color: var(--muted); font-weight: 600; font-size: .82rem; border-bottom: 1px solid var(--line);
  white-space: normal; vertical-align: bottom; line-height: 1.3; }
tbody tr + tr td { border-top: 1px solid var(--soft); }
tr.baseline td { background: var(--soft); }
td small { color: var(--muted); margin-left: .3rem; } td b { color: var(--accent); }
table.words td, table.words th { text-align: left; white-space: normal; overflow-wrap: anywhere;
  vertical-align: top; }
.pill { font-size: .72rem; color: var(--muted); border: 1px solid var(--line); border-radius: 999px;
  padding: 0 .5rem; margin-left: .5rem; white-space: nowrap; }
figure { margin: .8rem 0 1.4rem; }
figure img.plot { display: block; max-width: 100%; height: auto; background: #fff;
  border: 1px solid var(--line); border-radius: 10px; padding: .5rem; }
figcaption { margin-top: .4rem; max-width: 110ch; } .caption { max-width: 110ch; }
.gallery { display: grid; grid-template-columns: repeat(auto-fill, minmax(140px, 1fr)); gap: .9rem; }
.gallery figure { margin: 0; }
.gallery figcaption { font-size: .78rem; line-height: 1.35; overflow-wrap: anywhere; }
.gallery img { width: 100%; aspect-ratio: 3 / 2; object-fit: cover; border-radius: 8px; display: block;
  background: var(--soft); }
details { margin: .7rem 0; }
summary { cursor: pointer; color: var(--accent); font-size: .92rem; margin-bottom: .5rem; }
pre { background: var(--soft); border-radius: 8px; padding: .7rem .9rem; margin: 0; overflow-x: auto; }
pre, code { font: .84rem/1.5 ui-monospace, SFMono-Regular, Menlo, Consolas, "DejaVu Sans Mono", monospace; }
dl { display: grid; grid-template-columns: minmax(7rem, max-content) minmax(0, 1fr); gap: .45rem 1.4rem;
  font-size: .92rem; }
dt { color: var(--muted); } dd { margin: 0; overflow-wrap: anywhere; }
@media (max-width: 560px) { dl { grid-template-columns: 1fr; gap: .1rem; } dd { margin-bottom: .6rem; } }
@media print { body { background: #fff; } nav { display: none; } figure, tr { break-inside: avoid; } }
"""
