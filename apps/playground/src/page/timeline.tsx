import { useLayoutEffect, useRef, useState } from 'react'
import type { KeyboardEvent, MouseEvent, ReactElement, RefObject } from 'react'
import type { Exchange, ExchangeKind } from '../timeline/events.ts'
import { figuresOf } from '../timeline/figures.ts'
import type { PlaygroundState } from '../timeline/state.ts'
import {
  DiagramRow,
  KINDS,
  LaneNames,
  layoutOf,
  rowsOf,
  Shape,
  showsSameTime,
  svgOf,
} from './diagram.tsx'
import type { Row } from './diagram.tsx'

export interface TimelineProps {
  readonly state: PlaygroundState
  readonly selectedId: number | undefined
  /** Opens the details of an exchange. */
  readonly onOpen: (exchange: Exchange) => void
}

/** The HTTP exchanges as a sequence diagram: time goes down, each process and server has a lane. */
export function Timeline({ state, selectedId, onOpen }: TimelineProps): ReactElement {
  const [activeId, setActiveId] = useState<string>()
  const rows = rowsOf(state)
  const { box, width, isAtEnd, setFollowing, onScroll } = useFollowing(rows.at(-1)?.id)
  const layout = layoutOf(state, width)
  const active = rows.find(({ id }) => id === activeId) ?? rows.at(-1)

  function open(row: Row | undefined): void {
    if (row?.exchange !== undefined) onOpen(row.exchange)
  }
  function onClick({ target }: MouseEvent): void {
    const id = target instanceof Element ? target.closest('[role=option]')?.id : undefined
    setActiveId(id)
    open(rows.find((row) => row.id === id))
  }
  function onKeyDown(event: KeyboardEvent): void {
    const at = active === undefined ? -1 : rows.indexOf(active)
    const moves: Record<string, number> = {
      ArrowUp: at - 1,
      ArrowDown: at + 1,
      PageUp: at - 10,
      PageDown: at + 10,
      Home: 0,
      End: rows.length - 1,
    }
    const move = moves[event.key]
    const isOpening = event.key === 'Enter' || event.key === ' '
    if (move === undefined && !isOpening) return
    event.preventDefault()
    if (move === undefined) return open(active)
    const id = rows[Math.max(0, Math.min(rows.length - 1, move))]?.id ?? ''
    setActiveId(id)
    setFollowing(false)
    document.getElementById(id)?.scrollIntoView({ block: 'nearest' })
  }

  return (
    <section className="panel timeline" aria-labelledby="timeline-title">
      <header>
        <h2 id="timeline-title">Session timeline</h2>
        <span className="spacer" />
        <button
          type="button"
          className="small"
          disabled={rows.length === 0}
          onClick={() => save('timeline.json', jsonOf(state), 'application/json')}
        >
          Export JSON
        </button>
        <button
          type="button"
          className="small"
          disabled={rows.length === 0}
          onClick={() => save('timeline.svg', svgOf(state), 'image/svg+xml')}
        >
          Export SVG
        </button>
      </header>
      <Legend exchanges={state.exchanges} />
      <div
        className="scroll diagram"
        ref={box}
        onScroll={onScroll}
        onClick={onClick}
        onKeyDown={onKeyDown}
        tabIndex={0}
        role="listbox"
        aria-label="Exchanges and notices, oldest first"
        aria-activedescendant={active?.id}
      >
        {width > 0 && <LaneNames {...layout} />}
        {width > 0 &&
          rows.map((row, index) => (
            <DiagramRow
              key={row.id}
              row={row}
              layout={layout}
              isSameSecond={showsSameTime(rows[index - 1], row)}
              isActive={row === active}
              isOpen={row.exchange !== undefined && row.exchange.id === selectedId}
            />
          ))}
      </div>
      {state.exchanges.length === 0 && (
        <p className="empty">No HTTP exchange yet. Send a message to the agent.</p>
      )}
      {!isAtEnd && (
        <button type="button" className="newest small primary" onClick={() => setFollowing(true)}>
          Newest ↓
        </button>
      )}
    </section>
  )
}

/** The kinds with their shapes and numbers. */
function Legend({ exchanges }: { exchanges: readonly Exchange[] }): ReactElement {
  const counts = new Map<ExchangeKind, number>()
  for (const { kind } of exchanges) counts.set(kind, (counts.get(kind) ?? 0) + 1)
  return (
    <ul className="legend actions" aria-label="Kinds of exchanges">
      {[...KINDS].map(([kind, meaning]) => (
        <li key={kind} className={`kind-${kind}`} data-kind={kind} title={meaning}>
          <Shape kind={kind} /> {kind} <b>{counts.get(kind) ?? 0}</b>
        </li>
      ))}
    </ul>
  )
}

interface Following {
  readonly box: RefObject<HTMLDivElement | null>
  /** Width of the box without its scroll bar. 0 before it was measured. */
  readonly width: number
  readonly isAtEnd: boolean
  readonly setFollowing: (isFollowing: boolean) => void
  readonly onScroll: () => void
}

/** Keeps a box at the newest row until somebody scrolls up. */
function useFollowing(newestId: string | undefined): Following {
  const box = useRef<HTMLDivElement>(null)
  /** Not in the state: rows that arrive before the next drawing must not undo a scroll. */
  const isFollowing = useRef(true)
  const [width, setWidth] = useState(0)
  const [isAtEnd, setIsAtEnd] = useState(true)

  function setFollowing(follow: boolean): void {
    isFollowing.current = follow
    if (follow) box.current?.scrollTo({ top: box.current.scrollHeight })
  }
  useLayoutEffect(() => setFollowing(isFollowing.current), [newestId, width])
  useLayoutEffect(() => {
    const observer = new ResizeObserver(([entry]) => {
      setWidth(Math.floor(entry?.contentRect.width ?? 0))
      setFollowing(isFollowing.current)
    })
    if (box.current !== null) observer.observe(box.current)
    return () => observer.disconnect()
  }, [])
  function onScroll(): void {
    if (box.current === null) return
    const { scrollTop, clientHeight, scrollHeight } = box.current
    isFollowing.current = scrollHeight - scrollTop - clientHeight < 20
    setIsAtEnd(isFollowing.current)
  }
  return { box, width, isAtEnd, setFollowing, onScroll }
}

/** Everything that the page keeps about sessions; the diagram shows the newest rows only. */
function jsonOf({ processes, servers, exchanges, records }: PlaygroundState): string {
  const figures = figuresOf(exchanges)
  return JSON.stringify({ figures, processes, servers, records, exchanges }, null, 2)
}

/** Has the browser save a file. */
function save(name: string, content: string, type: string): void {
  const link = document.createElement('a')
  link.href = URL.createObjectURL(new Blob([content], { type }))
  link.download = name
  link.click()
  setTimeout(() => URL.revokeObjectURL(link.href), 60_000) // when it was saved
}
