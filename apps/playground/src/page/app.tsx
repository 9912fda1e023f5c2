import { useState, useSyncExternalStore } from 'react'
import type { ReactElement } from 'react'
import type { Notice } from '../timeline/state.ts'
import { Conversation } from './conversation.tsx'
import { DetailsDialog } from './exchange-details.tsx'
import { Figures } from './figures.tsx'
import { formatTime } from './format.ts'
import type { HostConnection, View } from './host-connection.ts'
import { Servers } from './servers.tsx'
import { Timeline } from './timeline.tsx'

const VIEWS = ['conversation', 'timeline', 'servers'] as const
const VIEW_LABELS = { conversation: 'Conversation', timeline: 'Timeline', servers: 'Servers' }

export function App({ connection }: { connection: HostConnection }): ReactElement {
  const view = useSyncExternalStore(connection.subscribe, connection.view)
  const { state, link } = view
  const [shown, setShown] = useState<(typeof VIEWS)[number]>('conversation')
  const [openId, setOpenId] = useState<number>()
  const open = state.exchanges.find(({ id }) => id === openId)

  return (
    <>
      <header className="top">
        <h1>MCP session playground</h1>
        <Figures exchanges={state.exchanges} />
      </header>
      {link.phase === 'lost' && (
        <p className="banner" role="alert">
          {`The connection to the playground was lost at ${formatTime(link.since)}. The page connects again by itself, and misses nothing. If the playground was stopped, run: `}
          <code>pnpm playground</code>
        </p>
      )}
      {/* On a narrow screen one part is shown at a time; on a wide one, all three. */}
      <nav className="views" aria-label="Parts of the page">
        {VIEWS.map((name) => (
          <button
            type="button"
            key={name}
            aria-pressed={name === shown}
            onClick={() => setShown(name)}
          >
            {VIEW_LABELS[name]}
            {name === 'conversation' && state.run?.state === 'waiting' && ' •'}
          </button>
        ))}
      </nav>
      <main data-view={shown}>
        <Conversation state={state} send={connection.send} />
        <Timeline state={state} selectedId={openId} onOpen={({ id }) => setOpenId(id)} />
        <Servers state={state} send={connection.send} />
      </main>
      <StatusBar view={view} />
      <Problems view={view} dismiss={connection.dismiss} />
      {open !== undefined && (
        <DetailsDialog
          exchange={open}
          load={connection.loadExchange}
          onClose={() => setOpenId(undefined)}
        />
      )}
    </>
  )
}

/** Notices of the host and of the page, newest last. */
function listNotices({ state, ownNotices }: View): Notice[] {
  return [...state.notices, ...ownNotices].toSorted((a, b) => a.at - b.at)
}

/** The newest notice. The timeline shows the others at their times. */
function StatusBar({ view }: { view: View }): ReactElement {
  const newest = listNotices(view).at(-1)
  return (
    <footer className="status">
      <span className={`link is-${view.link.phase}`}>{view.link.phase}</span>
      <p className="cut" role="status">
        {newest !== undefined && (
          <>
            <time>{formatTime(newest.at)}</time> {newest.text}
          </>
        )}
      </p>
    </footer>
  )
}

/** Problems since the page was opened. They stay until somebody closes them. */
function Problems({ view, dismiss }: { view: View; dismiss: (id: number) => void }): ReactElement {
  const [closed, setClosed] = useState<ReadonlySet<number>>(new Set())
  const problems = listNotices(view).filter(
    ({ id, level }) => level === 'problem' && !closed.has(id) && (id < 0 || id > view.firstEventId),
  )
  return (
    <div className="toasts stack" role="log" aria-label="Problems">
      {problems.slice(-3).map(({ id, text }) => (
        <div className="toast box" key={id}>
          <p>{text}</p>
          <button
            type="button"
            className="small"
            aria-label="Close the notice"
            onClick={() => {
              setClosed((before) => new Set([...before, id]))
              dismiss(id)
            }}
          >
            ×
          </button>
        </div>
      ))}
    </div>
  )
}
