import type { ReactElement, SVGAttributes } from 'react'
import { flushSync } from 'react-dom'
import { createRoot } from 'react-dom/client'
import { DEBUG_STATE } from '../timeline/events.ts'
import type { Exchange, ExchangeKind } from '../timeline/events.ts'
import type { Notice, PlaygroundState } from '../timeline/state.ts'
import style from './diagram.css?inline'
import { formatDuration, formatTime } from './format.ts'

/** Rows of a diagram; older ones are left out. */
const MAX_ROWS = 500
/** Heights of a row and of the names of the lanes, in pixels. */
const ROW = 30
const HEAD = 30
/** Width of a character of the diagram, in pixels: its font has one width. */
const CHARACTER = 7.25
/** Below this width there are no times and outcomes. */
const NARROW = 560
const EXPORTED_WIDTH = 1000

/** Meaning of each kind, in the order of the legend. */
export const KINDS: ReadonlyMap<ExchangeKind, string> = new Map([
  ['handshake', 'opens a session'],
  ['call', 'calls a tool'],
  ['loss', 'the server refuses the session, or the connection broke'],
  ['recovery', 'opens a new session after a loss'],
  ['resume', 'a new process goes on with a stored session, without a handshake'],
  ['stream', 'listens to the server, or gets the rest of an answer that broke off'],
  ['state', 'loads or stores a session'],
  ['other', 'lists, notifications, answers, ends of sessions'],
])

/** Drawn in a box of 16 by 16: colour is not the only sign of a kind. */
const SHAPES: Readonly<Record<ExchangeKind, string>> = {
  handshake: 'M8 1.5 14.5 8 8 14.5 1.5 8Z',
  call: 'M8 2a6 6 0 1 0 0 12A6 6 0 1 0 8 2Z',
  loss: 'M3.6 1.5 8 5.9l4.4-4.4 2.1 2.1L10.1 8l4.4 4.4-2.1 2.1L8 10.1l-4.4 4.4-2.1-2.1L5.9 8 1.5 3.6Z',
  recovery: 'M8 1.5 15 14H1Z',
  resume: 'M2.5 1.5 14.5 8l-12 6.5Z',
  stream: 'M1 3h14v2.5H1ZM1 7h14v2.5H1ZM1 11h14v2.5H1Z',
  state: 'M2 2h12v12H2Z',
  other: 'M8 2a6 6 0 1 0 0 12A6 6 0 1 0 8 2Zm0 3a3 3 0 1 1 0 6 3 3 0 1 1 0-6Z',
}

export function Shape({ kind }: { kind: ExchangeKind }): ReactElement {
  return (
    <svg className="shape" viewBox="0 0 16 16" aria-hidden="true">
      <path d={SHAPES[kind]} />
    </svg>
  )
}

/** An exchange or a notice. */
export type Row = {
  readonly id: string
  readonly at: number
  /** Absent if the row above shows the same. */
  readonly time?: string | undefined
} & ({ readonly exchange: Exchange } | { readonly exchange?: never; readonly notice: Notice })

/** The newest rows, in the order of time. */
export function rowsOf({ exchanges, notices }: PlaygroundState): Row[] {
  const rows: Row[] = [
    ...exchanges.map((exchange) => {
      return { id: `exchange-${exchange.id}`, at: exchange.startedAt, exchange }
    }),
    ...notices.map((notice) => ({ id: `notice-${notice.id}`, at: notice.at, notice })),
  ]
  let last: string
  return rows
    .toSorted((a, b) => a.at - b.at)
    .slice(-MAX_ROWS)
    .map((row) => {
      const time = formatTime(row.at)
      const isSame = time === last
      last = time
      return { ...row, time: isSame ? undefined : time }
    })
}

/** Places in a diagram, in pixels. */
export interface Layout {
  readonly width: number
  readonly isNarrow: boolean
  readonly laneWidth: number
  /** Middle of each lane. */
  readonly lanes: ReadonlyMap<string, number>
}

/** Places of the lanes: processes at the left, then the servers, debug state last. */
export function layoutOf(
  { processes, servers, exchanges }: PlaygroundState,
  width: number,
): Layout {
  const names = new Set([
    ...['agent', 'gateway'].filter((name) => name in processes),
    ...exchanges.map(({ from }) => from),
    // There are no HTTP exchanges with a stdio server.
    ...servers.filter(({ transport }) => transport === 'http').map(({ name }) => name),
    ...exchanges.map(({ to }) => to),
  ])
  if (names.delete(DEBUG_STATE)) names.add(DEBUG_STATE)
  const isNarrow = width < NARROW
  const [left, right] = isNarrow ? [0, 0] : [68, 124]
  const laneWidth = (width - left - right) / Math.max(names.size, 1)
  const lanes = [...names].map((name, index) => [name, left + (index + 0.5) * laneWidth] as const)
  return { width, isNarrow, laneWidth, lanes: new Map(lanes) }
}

/** The names of the lanes. */
export function LaneNames({ lanes, laneWidth, width }: Layout): ReactElement {
  return (
    <svg className="lane-names" width={width} height={HEAD} aria-hidden="true">
      {[...lanes].map(([name, x]) => (
        <text key={name} x={x} y={20} {...fitted(name, laneWidth)}>
          {name}
        </text>
      ))}
    </svg>
  )
}

/** Attributes that narrow a name if it is wider than its lane. */
function fitted(name: string, laneWidth: number): SVGAttributes<SVGTextElement> {
  const room = laneWidth - 8
  return name.length * CHARACTER < room
    ? {}
    : { textLength: room, lengthAdjust: 'spacingAndGlyphs' }
}

interface DiagramRowProps {
  readonly row: Row
  readonly layout: Layout
  /** Distance from the top of an exported diagram. In the page, rows follow each other. */
  readonly y?: number
  readonly isActive?: boolean
  readonly isOpen?: boolean
}

/** A row of the diagram: an SVG of its own, which may also be part of another one. */
export function DiagramRow(props: DiagramRowProps): ReactElement {
  const { row, layout, y, isActive, isOpen = false } = props
  const { exchange } = row
  const classes = [
    'row',
    exchange === undefined ? `notice is-${row.notice.level}` : `kind-${exchange.kind}`,
    exchange !== undefined && exchange.durationMs === undefined && 'is-unfinished',
    exchange !== undefined && hasFailed(exchange) && 'is-failed',
    isActive && 'is-active',
  ]
  return (
    <svg
      className={classes.filter(Boolean).join(' ')}
      width={layout.width}
      height={ROW}
      y={y}
      role="option"
      id={row.id}
      data-kind={exchange?.kind}
      aria-selected={isOpen}
    >
      <path className="lane" d={[...layout.lanes.values()].map((x) => `M${x} 0v${ROW}`).join('')} />
      {!layout.isNarrow && (
        <text className="quiet" x={10} y={25}>
          {row.time}
        </text>
      )}
      {exchange === undefined ? drawNotice(row.notice, layout) : drawExchange(exchange, layout)}
    </svg>
  )
}

function drawExchange(exchange: Exchange, layout: Layout): ReactElement {
  const { kind, label, from, to, sessionId } = exchange
  const [start = 0, end = 0] = [layout.lanes.get(from), layout.lanes.get(to)]
  const left = Math.min(start, end) + 10
  const outcome = describeOutcome(exchange)
  return (
    <>
      <title>{`${kind} ${label} from ${from} to ${to}, ${outcome}`}</title>
      <path className="line" d={`M${start} 22H${end}`} />
      <path className="shape" d={SHAPES[kind]} transform={`translate(${end - 6} 16) scale(.75)`} />
      <text x={left} y={13}>
        <tspan className="kind-name">{kind}</tspan>{' '}
        {cut(label, layout.width - left - (kind.length + 1) * CHARACTER)}
        {sessionId !== undefined && <tspan className="quiet"> {sessionId}</tspan>}
      </text>
      {!layout.isNarrow && (
        <text className="quiet outcome" x={layout.width - 10} y={26}>
          {outcome}
        </text>
      )}
    </>
  )
}

function drawNotice(notice: Notice, layout: Layout): ReactElement {
  const left = layout.isNarrow ? 4 : 68
  const text = cut(notice.text, layout.width - left - 20)
  const width = Array.from(text).length * CHARACTER + 16
  return (
    <>
      <title>{notice.text}</title>
      <rect className="box" x={left} y={4} width={width} height={22} rx={5} />
      <text x={left + 8} y={19}>
        {text}
      </text>
    </>
  )
}

function describeOutcome({ durationMs, status, problem }: Exchange): string {
  if (durationMs === undefined) return status === undefined ? 'sent…' : `${status}, open…`
  return problem ?? `${status ?? 'no answer'} · ${formatDuration(durationMs)}`
}

/** A status of 4xx alone does not count as a failure: servers answer so without a record, or for another revision. */
function hasFailed({ kind, status = 0, problem }: Exchange): boolean {
  return kind === 'loss' || status >= 500 || problem === 'connection broke'
}

/** The beginning of a text that fits a width. */
function cut(text: string, width: number): string {
  const characters = Array.from(text)
  const max = Math.max(1, Math.floor(width / CHARACTER))
  return characters.length <= max ? text : `${characters.slice(0, max - 1).join('')}…`
}

/** The diagram as an SVG document of its own, in light and dark. */
export function svgOf(state: PlaygroundState): string {
  const rows = rowsOf(state)
  const layout = layoutOf(state, EXPORTED_WIDTH)
  const page = document.createElement('div')
  const size = { width: EXPORTED_WIDTH, height: HEAD + rows.length * ROW + 10 }
  const diagram = (
    <svg viewBox={`0 0 ${size.width} ${size.height}`} {...size} role="img">
      <title>{`Timeline of MCP sessions: ${[...layout.lanes.keys()].join(', ')}`}</title>
      <style>{style}</style>
      <rect className="ground" {...size} />
      <LaneNames {...layout} />
      {rows.map((row, index) => (
        <DiagramRow key={row.id} row={row} layout={layout} y={HEAD + index * ROW} />
      ))}
    </svg>
  )
  flushSync(() => createRoot(page).render(diagram))
  const [svg] = page.children
  return svg === undefined
    ? ''
    : new XMLSerializer().serializeToString(svg).replaceAll(FORBIDDEN, '\uFFFD')
}

/** Characters that XML 1.0 forbids (section 2.2). */
const FORBIDDEN = /[^\t\n\r\u0020-\uD7FF\uE000-\uFFFD\u{10000}-\u{10FFFF}]/gu
