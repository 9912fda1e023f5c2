import { useCallback, useState } from 'react'
import type { KeyboardEvent, MouseEvent, ReactElement } from 'react'
import type { Exchange, ExchangeKind } from '../timeline/events.ts'
import { figuresOf } from '../timeline/figures.ts'
import type { PlaygroundState } from '../timeline/state.ts'
import { DiagramRow, KINDS, LaneNames, layoutOf, rowsOf, Shape, svgOf } from './diagram.tsx'
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
  const [isAtEnd, setIsAtEnd] = useState(true)
  /** 0 before it was measured, and while the timeline is hidden. */
  const [width, setWidth] = useState(0)
  const measure = useCallback((element: HTMLElement | null) => {
    if (element === null) return undefined
    const observer = new ResizeObserver(([entry]) => setWidth(entry?.contentRect.width ?? 0))
    observer.observe(element)
    return () => observer.disconnect()
  }, [])
  const rows = rowsOf(state)
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
    const row = rows[Math.max(0, Math.min(rows.length - 1, move))]
    setActiveId(row?.id)
    scrollTo(row)
  }

  return (
    <section className="panel timeline" aria-labelledby="timeline-title">
      <header className="bar">
        <h2 id="timeline-title">Session timeline</h2>
        <span className="spacer" />
        <button
          type="button"
          disabled={rows.length === 0}
          onClick={() => save('timeline.json', jsonOf(state), 'application/json')}
        >
          Export JSON
        </button>
        <button
          type="button"
          disabled={rows.length === 0}
          onClick={() => save('timeline.svg', svgOf(state), 'image/svg+xml')}
        >
          Export SVG
        </button>
      </header>
      <Legend exchanges={state.exchanges} />
      {state.exchanges.length === 0 && (
        <p className="quiet">No HTTP exchange yet. Send a message to the agent.</p>
      )}
      <div
        className="scroll at-end diagram"
        onScroll={({ currentTarget }) => setIsAtEnd(currentTarget.scrollTop > -20)}
        onClick={onClick}
        onKeyDown={onKeyDown}
        tabIndex={0}
        role="listbox"
        aria-label="Exchanges and notices, oldest first"
        aria-activedescendant={active?.id}
      >
        <div ref={measure} role="presentation">
          {width > 0 && <LaneNames {...layout} />}
          {width > 0 &&
            rows.map((row) => (
              <DiagramRow
                key={row.id}
                row={row}
                layout={layout}
                isActive={row === active}
                isOpen={row.exchange !== undefined && row.exchange.id === selectedId}
              />
            ))}
        </div>
      </div>
      {!isAtEnd && (
        <button type="button" className="newest primary" onClick={() => scrollTo(rows.at(-1))}>
          Newest ↓
        </button>
      )}
    </section>
  )
}

function scrollTo(row: Row | undefined): void {
  document.getElementById(row?.id ?? '')?.scrollIntoView({ block: 'nearest' })
}

/** The kinds with their shapes and numbers. */
function Legend({ exchanges }: { exchanges: readonly Exchange[] }): ReactElement {
  const counts = new Map<ExchangeKind, number>()
  for (const { kind } of exchanges) counts.set(kind, (counts.get(kind) ?? 0) + 1)
  return (
    <ul className="legend bar" aria-label="Kinds of exchanges">
      {[...KINDS].map(([kind, meaning]) => (
        <li key={kind} className={`kind kind-${kind}`} data-kind={kind} title={meaning}>
          <Shape kind={kind} /> {kind} <b>{counts.get(kind) ?? 0}</b>
        </li>
      ))}
    </ul>
  )
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
