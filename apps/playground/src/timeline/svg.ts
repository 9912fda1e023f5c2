import { DEBUG_STATE, labelOf } from './classify.ts'
import type { Exchange, ExchangeKind } from './events.ts'
import type { PlaygroundState } from './state.ts'

/** Most rows of a diagram; the oldest are left out. */
const MAX_ROWS = 300
/** Equal exchanges in a row that become one. */
const MIN_GROUP = 4
/** Most characters of a text. */
const MAX_TEXT = 60

const ROW = 30
const TOP = 116
const MARGIN = 24
const TIME = 64
const LANE = 210

/** Meaning of each kind, for the legend. */
const KIND_NAMES: Readonly<Record<ExchangeKind, string>> = {
  handshake: 'handshake',
  call: 'call',
  loss: 'session lost',
  recovery: 'recovery',
  resume: 'resume',
  stream: 'stream',
  state: 'debug state',
  other: 'other',
}

const STYLE = `
svg { color-scheme: light dark; --ground: #fff; --ink: #1c2330; --soft: #5b6470; --line: #c9d1dc;
  --handshake: #6f42c1; --call: #0b5cad; --loss: #b3261e; --recovery: #9a4a00; --resume: #1a7340;
  --stream: #0b6670; --state: #665600; --other: #5b6470 }
@media (prefers-color-scheme: dark) { svg { --ground: #10151d; --ink: #e8edf4; --soft: #a6b0bd;
  --line: #364252; --handshake: #c4a5ff; --call: #7cb8ff; --loss: #ff8f87; --recovery: #ffb057;
  --resume: #6ddc8f; --stream: #6fd6df; --state: #dccf6a; --other: #b3bcc7 } }
text { font: 13px system-ui, sans-serif; fill: var(--ink) }
.title { font-size: 18px; font-weight: 600 }
.soft { fill: var(--soft); font-size: 12px }
.lane { font-weight: 600; text-anchor: middle }
.life { stroke: var(--line); stroke-width: 1.5 }
.box { fill: var(--ground); stroke: var(--line); stroke-width: 1.5 }
.time { text-anchor: end }
.note { fill: var(--line); opacity: .45 }
.arrow { fill: none; stroke: currentColor; stroke-width: 2 }
.head { fill: currentColor }
.label { fill: currentColor; paint-order: stroke; stroke: var(--ground); stroke-width: 4px;
  stroke-linejoin: round; text-anchor: middle }
.loss .arrow { stroke-dasharray: 6 4 }
.stream .arrow { stroke-dasharray: 2 4; stroke-linecap: round }
${Object.keys(KIND_NAMES)
  .map((kind) => `.${kind} { color: var(--${kind}) }`)
  .join('\n')}`

/** What a diagram shows of the state. */
export type Diagram = Pick<PlaygroundState, 'exchanges' | 'servers' | 'notices'>

/**
 * A sequence diagram as a document of its own: it is readable on light and dark ground, without colours, and
 * by screen readers. Texts are cut, and at most 300 rows are shown, so that its size is bounded.
 */
export function svgOf({ exchanges, servers, notices }: Diagram, title = 'MCP sessions'): string {
  const all = rowsOf(exchanges, notices)
  const rows = all.slice(-MAX_ROWS)
  const lanes = lanesOf(exchanges, servers)
  const x = new Map(lanes.map(({ name }, index) => [name, MARGIN + TIME + LANE * (index + 0.5)]))
  const width = MARGIN * 2 + TIME + LANE * Math.max(lanes.length, 2)
  const bottom = TOP + ROW * Math.max(rows.length, 1)
  const height = bottom + 60
  const start = exchanges[0]?.startedAt ?? 0
  const left = all.length - rows.length
  const summary = `${exchanges.length} exchanges in ${lanes.length} lanes: ${lanes.map((one) => one.title).join(', ')}.`

  const parts = [
    `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 ${width} ${height}" width="${width}" height="${height}" role="img" aria-labelledby="title description">`,
    `<title id="title">${xml(title)}</title>`,
    `<desc id="description">${xml(summary, 500)}</desc>`,
    `<style>${STYLE}</style>`,
    `<rect width="${width}" height="${height}" style="fill:var(--ground)"/>`,
    text('title', [MARGIN, 36], title),
    ...lanes.map(({ name, title: laneTitle }) => lane(x.get(name) ?? 0, bottom, laneTitle)),
  ]
  if (left > 0) parts.push(text('soft', [MARGIN, TOP - 8], `${left} earlier rows are left out`))
  if (rows.length === 0) parts.push(text('soft', [MARGIN, TOP + 16], 'Nothing has happened yet.'))
  rows.forEach((row, index) => {
    const y = TOP + ROW * (index + 0.5)
    const seconds = `+${(Math.max(0, row.at - start) / 1000).toFixed(2)} s`
    parts.push(text('soft time', [MARGIN + TIME - 8, y + 4], seconds))
    parts.push('text' in row ? note(row, y, width) : arrow(row, y, x))
  })
  parts.push(legend(height - 22), '</svg>')
  return `${parts.join('\n')}\n`
}

/** A sentence about what somebody did, or exchanges that are alike. */
type Row =
  | { readonly at: number; readonly text: string }
  | { readonly at: number; readonly exchange: Exchange; readonly count: number }

/** Rows in the order of time. Many equal exchanges in a row, such as parallel calls, become one. */
function rowsOf(exchanges: readonly Exchange[], notices: Diagram['notices']): Row[] {
  const rows: Row[] = notices.map(({ at, text: noticed }) => ({ at, text: noticed }))
  for (let index = 0; index < exchanges.length;) {
    const exchange = exchanges[index]
    if (exchange === undefined) break
    const key = keyOf(exchange)
    const rest = exchanges.slice(index)
    const different = rest.findIndex((other) => keyOf(other) !== key)
    const alike = different < 0 ? rest.length : different
    const count = alike < MIN_GROUP ? 1 : alike
    rows.push({ at: exchange.startedAt, exchange, count })
    index += count
  }
  return rows.toSorted((a, b) => a.at - b.at)
}

function keyOf(exchange: Exchange): string {
  const { from, to, kind, status } = exchange
  return JSON.stringify([from, to, kind, status, labelOf(exchange)])
}

interface Lane {
  readonly name: string
  readonly title: string
}

/** Processes at the left, servers as they are listed, and the debug state at the right. A pipe has no exchanges. */
function lanesOf(exchanges: readonly Exchange[], servers: Diagram['servers']): readonly Lane[] {
  const processes = new Set<string>(['agent', ...exchanges.map(({ from }) => from)])
  const overHttp = servers.filter(({ transport }) => transport === 'http')
  const names = new Set([...overHttp.map(({ name }) => name), ...exchanges.map(({ to }) => to)])
  if (names.delete(DEBUG_STATE)) names.add(DEBUG_STATE)
  return [
    ...[...processes].map((name) => ({ name, title: `${name} process` })),
    ...[...names].filter((name) => !processes.has(name)).map((name) => ({ name, title: name })),
  ]
}

function lane(x: number, bottom: number, title: string): string {
  const short = xml(title, 26)
  return [
    `<line class="life" x1="${x}" x2="${x}" y1="${TOP - 24}" y2="${bottom}"/>`,
    `<rect class="box" x="${x - LANE / 2 + 10}" y="${TOP - 60}" width="${LANE - 20}" height="36" rx="8"/>`,
    `<text class="lane" x="${x}" y="${TOP - 37}">${short}</text>`,
  ].join('\n')
}

function arrow(
  { exchange, count }: Extract<Row, { readonly exchange: Exchange }>,
  y: number,
  lanes: ReadonlyMap<string, number>,
): string {
  const { from, to, kind, status, durationMs, problem } = exchange
  const x1 = lanes.get(from) ?? 0
  const x2 = lanes.get(to) ?? 0
  const direction = x2 < x1 ? -1 : 1
  const tip = x2 - 2 * direction
  const isNamed = kind === 'loss' || kind === 'recovery' || kind === 'resume'
  const what = `${isNamed ? `${KIND_NAMES[kind]}: ` : ''}${count > 1 ? `${count} × ` : ''}${exchange.toolName === undefined ? '' : 'call '}${labelOf(exchange)}`
  const outcome =
    problem ??
    (status === undefined ? (kind === 'stream' ? 'open' : 'no answer yet') : String(status))
  const time = durationMs === undefined ? '' : `, ${Math.round(durationMs)} ms`
  const end =
    kind === 'loss'
      ? `<path class="arrow" style="stroke-dasharray:none" d="M${x2 - 5} ${y - 5}l10 10m0 -10l-10 10"/>`
      : `<path class="head" d="M${tip} ${y}l${-9 * direction} -5v10z"/>`
  const shown = status === 200 || status === 202 ? what : `${what} (${outcome})`
  return [
    `<g class="${kind}">`,
    `<title>${xml(`${from} to ${to}: ${KIND_NAMES[kind]}, ${what}: ${outcome}${time}`, 300)}</title>`,
    `<path class="arrow" d="M${x1} ${y}H${tip}"/>`,
    end,
    `<text class="label" x="${(x1 + x2) / 2}" y="${y - 5}">${xml(shown)}</text>`,
    '</g>',
  ].join('\n')
}

function note(row: Extract<Row, { readonly text: string }>, y: number, width: number): string {
  const x = MARGIN + TIME
  return [
    `<rect class="note" x="${x}" y="${y - 12}" width="${width - x - MARGIN}" height="24" rx="6"/>`,
    text('', [x + 12, y + 4], row.text),
  ].join('\n')
}

function legend(y: number): string {
  const kinds = Object.entries(KIND_NAMES)
  return kinds
    .map(([kind, name], index) => {
      const x = MARGIN + index * 104
      return `<g class="${kind}"><path class="arrow" d="M${x} ${y - 4}h18"/><text class="soft" x="${x + 24}" y="${y}">${name}</text></g>`
    })
    .join('\n')
}

function text(name: string, [x, y]: readonly [number, number], content: string): string {
  return `<text class="${name}" x="${x}" y="${y}">${xml(content, 110)}</text>`
}

/** A text for XML: cut, escaped, and without characters that XML 1.0 forbids (section 2.2). */
function xml(content: string, max: number = MAX_TEXT): string {
  const characters = Array.from(content.slice(0, max * 4))
  const cut = characters.length > max ? [...characters.slice(0, max - 1), '…'] : characters
  return cut
    .map((character) => (ALLOWED.test(character) ? (ESCAPES[character] ?? character) : '\uFFFD'))
    .join('')
}

const ALLOWED = /^[\t\n\r\u0020-\uD7FF\uE000-\uFFFD\u{10000}-\u{10FFFF}]$/u
const ESCAPES: Readonly<Record<string, string>> = {
  '&': '&amp;',
  '<': '&lt;',
  '>': '&gt;',
  '"': '&quot;',
}
