import { useLayoutEffect, useMemo, useRef, useState } from 'react'
import type { CSSProperties, KeyboardEvent, ReactElement } from 'react'
import { DEBUG_STATE, labelOf } from '../timeline/classify.ts'
import type { Exchange, ExchangeKind } from '../timeline/events.ts'
import type { Notice, PlaygroundState } from '../timeline/state.ts'
import { formatDuration, formatTime } from './format.ts'

export interface TimelineProps {
  readonly state: PlaygroundState
  readonly selectedId: number | undefined
  /** Opens the details of an exchange. */
  readonly onOpen: (exchange: Exchange) => void
}

declare module 'react' {
  interface CSSProperties {
    /** Custom property that the style sheet reads. */
    [name: `--${string}`]: string | number
  }
}

/** Rows have one height, so that the place of each is known without drawing it. */
const ROW_HEIGHT = 34
/** Rows that are drawn above and below those that are seen. */
const SPARE_ROWS = 8

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

/** Meaning of each kind, in the order of the legend. */
export const KINDS: ReadonlyMap<ExchangeKind, string> = new Map([
  ['handshake', 'opens a session'],
  ['call', 'calls a tool'],
  ['loss', 'the server refuses the session, or the connection broke'],
  ['recovery', 'opens a new session after a loss'],
  ['resume', 'a new process goes on with a stored session, without a handshake'],
  ['stream', 'listens to the server'],
  ['state', 'loads or stores a session'],
  ['other', 'lists, notifications, answers, ends of sessions'],
])

type Row = { readonly at: number } & (
  | { readonly exchange: Exchange }
  | { readonly exchange?: never; readonly notice: Notice }
)

/** The HTTP exchanges as a sequence diagram: time goes down, each process and server has a lane. */
export function Timeline({ state, selectedId, onOpen }: TimelineProps): ReactElement {
  const [hidden, setHidden] = useState<ReadonlySet<ExchangeKind>>(new Set())
  const [activeId, setActiveId] = useState<number>()
  const rows = useMemo(() => mergeRows(state, hidden), [state, hidden])
  const lanes = useMemo(() => listLanes(state), [state])
  const { scroller, first, last, isAtEnd, scrollToRow, scrollToEnd, onScroll } = useWindow(
    rows.length,
  )

  const exchanges = rows.flatMap(({ exchange }) => (exchange === undefined ? [] : [exchange]))
  const active = exchanges.find(({ id }) => id === activeId) ?? exchanges.at(-1)

  function onKeyDown(event: KeyboardEvent): void {
    const at = active === undefined ? -1 : exchanges.indexOf(active)
    const moves: Record<string, number> = {
      ArrowUp: at - 1,
      ArrowDown: at + 1,
      PageUp: at - 10,
      PageDown: at + 10,
      Home: 0,
      End: exchanges.length - 1,
    }
    const move = moves[event.key]
    if (move !== undefined) {
      event.preventDefault()
      const next = exchanges[Math.max(0, Math.min(exchanges.length - 1, move))]
      setActiveId(next?.id)
      scrollToRow(rows.findIndex(({ exchange }) => exchange === next))
    } else if ((event.key === 'Enter' || event.key === ' ') && active !== undefined) {
      event.preventDefault()
      onOpen(active)
    }
  }

  const visible = rows.slice(first, last)
  const isDrawn = visible.some(({ exchange }) => exchange === active)
  const geometry: CSSProperties = { '--lanes': lanes.length, '--row': `${ROW_HEIGHT}px` }
  return (
    <section className="panel timeline" aria-labelledby="timeline-title">
      <header>
        <h2 id="timeline-title">Session timeline</h2>
        <span className="spacer" />
        <a className="button small" href="/api/timeline.json" download="timeline.json">
          Export JSON
        </a>
        <a className="button small" href="/api/timeline.svg" download="timeline.svg">
          Export SVG
        </a>
      </header>
      <Legend exchanges={state.exchanges} hidden={hidden} onChange={setHidden} />
      <div
        className="scroll diagram"
        style={geometry}
        ref={scroller}
        onScroll={onScroll}
        onKeyDown={onKeyDown}
        tabIndex={0}
        role="listbox"
        aria-label="Exchanges, oldest first"
        aria-activedescendant={isDrawn ? `exchange-${active?.id}` : undefined}
      >
        <div className="lane-heads" aria-hidden="true">
          {lanes.map((lane) => (
            <span key={lane} title={lane}>
              <b className="cut">{lane}</b>
            </span>
          ))}
        </div>
        <div className="canvas" role="presentation" style={{ height: rows.length * ROW_HEIGHT }}>
          {visible.map((row, index) => {
            const top = (first + index) * ROW_HEIGHT
            if (row.exchange === undefined)
              return <NoticeRow key={`n${row.notice.id}`} notice={row.notice} top={top} />
            const { exchange } = row
            return (
              <ExchangeRow
                key={exchange.id}
                exchange={exchange}
                lanes={lanes}
                top={top}
                isSameSecond={showsSameTime(rows[first + index - 1], row)}
                isActive={exchange === active}
                isOpen={exchange.id === selectedId}
                onOpen={() => {
                  setActiveId(exchange.id)
                  onOpen(exchange)
                }}
              />
            )
          })}
        </div>
      </div>
      {rows.length === 0 && (
        <p className="empty">
          {state.exchanges.length === 0
            ? 'No HTTP exchange yet. Send a message to the agent.'
            : 'All kinds of exchanges are hidden. Choose one above.'}
        </p>
      )}
      {!isAtEnd && (
        <button type="button" className="newest small primary" onClick={scrollToEnd}>
          Newest ↓
        </button>
      )}
    </section>
  )
}

function showsSameTime(above: Row | undefined, row: Row): boolean {
  return above !== undefined && formatTime(above.at) === formatTime(row.at)
}

interface LegendProps {
  readonly exchanges: readonly Exchange[]
  readonly hidden: ReadonlySet<ExchangeKind>
  readonly onChange: (hidden: ReadonlySet<ExchangeKind>) => void
}

/** The kinds with their shapes and numbers. Each hides or shows its rows. */
function Legend({ exchanges, hidden, onChange }: LegendProps): ReactElement {
  const counts = new Map<ExchangeKind, number>()
  for (const { kind } of exchanges) counts.set(kind, (counts.get(kind) ?? 0) + 1)
  return (
    <div className="legend actions" role="group" aria-label="Kinds of exchanges that are shown">
      {[...KINDS].map(([kind, help]) => (
        <button
          type="button"
          key={kind}
          className={`kind-${kind}`}
          data-kind={kind}
          title={help}
          aria-pressed={!hidden.has(kind)}
          onClick={() => {
            const next = new Set(hidden)
            if (!next.delete(kind)) next.add(kind)
            onChange(next)
          }}
        >
          <Shape kind={kind} /> {kind} <b>{counts.get(kind) ?? 0}</b>
        </button>
      ))}
    </div>
  )
}

export function Shape({ kind }: { kind: ExchangeKind }): ReactElement {
  return (
    <svg className="shape" viewBox="0 0 16 16" aria-hidden="true">
      <path d={SHAPES[kind]} />
    </svg>
  )
}

interface ExchangeRowProps {
  readonly exchange: Exchange
  readonly lanes: readonly string[]
  readonly top: number
  /** The row above shows the same time. */
  readonly isSameSecond: boolean
  readonly isActive: boolean
  readonly isOpen: boolean
  readonly onOpen: () => void
}

function ExchangeRow(props: ExchangeRowProps): ReactElement {
  const { exchange, lanes, top, isSameSecond, isActive, isOpen, onOpen } = props
  const { id, kind, from, to, startedAt, durationMs, sessionId } = exchange
  const [start, end] = [lanes.indexOf(from), lanes.indexOf(to)]
  const style: CSSProperties = {
    top,
    '--start': Math.min(start, end),
    '--end': Math.max(start, end),
    '--to': end,
  }
  const classes = [
    'row',
    `kind-${kind}`,
    durationMs === undefined && 'is-open',
    hasFailed(exchange) && 'is-failed',
    isActive && 'is-active',
  ]
  return (
    <div
      className={classes.filter(Boolean).join(' ')}
      style={style}
      role="option"
      id={`exchange-${id}`}
      data-kind={kind}
      aria-selected={isOpen}
      onClick={onOpen}
    >
      <time className={isSameSecond ? 'is-repeated' : 'cut'}>{formatTime(startedAt)}</time>
      <span className="track">
        <span className="line" />
        <span className="label cut">
          <b>{kind}</b> {labelOf(exchange)}
          {sessionId !== undefined && <i> {sessionId}</i>}
        </span>
        <span className="visually-hidden">{` from ${from} to ${to} `}</span>
        <span className="end">
          <Shape kind={kind} />
        </span>
      </span>
      <span className="outcome cut">{describeOutcome(exchange)}</span>
    </div>
  )
}

function NoticeRow({ notice, top }: { notice: Notice; top: number }): ReactElement {
  return (
    <div className={`row notice is-${notice.level}`} style={{ top }} role="presentation">
      <time>{formatTime(notice.at)}</time>
      <span className="label cut" title={notice.text}>
        {notice.text}
      </span>
    </div>
  )
}

function describeOutcome({ durationMs, status, problem }: Exchange): string {
  if (durationMs === undefined) return status === undefined ? 'sent…' : `${status}, open…`
  return problem ?? `${status ?? 'no answer'} · ${formatDuration(durationMs)}`
}

/** A status of 4xx alone is no failure: servers answer so without a record, or for another revision. */
function hasFailed({ kind, status = 0, problem }: Exchange): boolean {
  return kind === 'loss' || status >= 500 || problem === 'connection broke'
}

/** Processes at the left, then the servers, debug state last. There are no HTTP exchanges with a stdio server. */
function listLanes({ processes, servers, exchanges }: PlaygroundState): string[] {
  const names = [
    ...(['agent', 'gateway'] as const).filter((name) => name in processes),
    ...exchanges.map(({ from }) => from),
    ...servers.filter(({ transport }) => transport === 'http').map(({ name }) => name),
    ...exchanges.map(({ to }) => to),
  ]
  const lanes = new Set(names)
  if (lanes.delete(DEBUG_STATE)) lanes.add(DEBUG_STATE)
  return [...lanes]
}

function mergeRows(
  { exchanges, notices }: PlaygroundState,
  hidden: ReadonlySet<ExchangeKind>,
): Row[] {
  const shown = exchanges.filter(({ kind }) => !hidden.has(kind))
  const oldest = shown[0]?.startedAt ?? Infinity
  return [
    ...shown.map((exchange) => ({ at: exchange.startedAt, exchange })),
    ...notices.filter(({ at }) => at >= oldest).map((notice) => ({ at: notice.at, notice })),
  ].toSorted((a, b) => a.at - b.at)
}

interface RowWindow {
  readonly scroller: (element: HTMLDivElement | null) => (() => void) | undefined
  readonly first: number
  readonly last: number
  readonly isAtEnd: boolean
  readonly scrollToRow: (index: number) => void
  readonly scrollToEnd: () => void
  readonly onScroll: () => void
}

/** Finds the rows to draw. Stays at the newest row until somebody scrolls up. */
function useWindow(count: number): RowWindow {
  const element = useRef<HTMLDivElement>(null)
  /** Not in the state: rows that arrive before the next drawing must not undo a scroll. */
  const isFollowing = useRef(true)
  const [view, setView] = useState({ first: 0, seen: 20, isAtEnd: true })

  function measure(): void {
    const { scrollTop, clientHeight, scrollHeight } = element.current ?? EMPTY_BOX
    const first = Math.floor(scrollTop / ROW_HEIGHT)
    const seen = Math.ceil(clientHeight / ROW_HEIGHT)
    const isAtEnd = scrollHeight - scrollTop - clientHeight < ROW_HEIGHT
    isFollowing.current = isAtEnd
    setView((old) =>
      old.first === first && old.seen === seen && old.isAtEnd === isAtEnd
        ? old
        : { first, seen, isAtEnd },
    )
  }
  function scrollToEnd(): void {
    element.current?.scrollTo({ top: element.current.scrollHeight })
  }
  useLayoutEffect(() => {
    if (isFollowing.current) scrollToEnd()
  }, [count])

  return {
    scroller: (box) => {
      element.current = box
      if (box === null) return undefined
      const observer = new ResizeObserver(() => {
        if (isFollowing.current) scrollToEnd()
        measure()
      })
      observer.observe(box)
      return () => observer.disconnect()
    },
    first: Math.max(0, view.first - SPARE_ROWS),
    last: view.first + view.seen + SPARE_ROWS,
    isAtEnd: view.isAtEnd,
    scrollToRow: (index) => {
      const box = element.current
      if (box === null || index < 0) return
      const [top, bottom] = [index * ROW_HEIGHT, (index + 3) * ROW_HEIGHT]
      isFollowing.current = false
      if (top < box.scrollTop) box.scrollTop = top
      else if (bottom > box.scrollTop + box.clientHeight) box.scrollTop = bottom - box.clientHeight
    },
    scrollToEnd,
    onScroll: measure,
  }
}

const EMPTY_BOX = { scrollTop: 0, clientHeight: 0, scrollHeight: 0 }
