import { useState } from 'react'
import type { ReactElement } from 'react'
import { Conversation } from './conversation.tsx'
import { DetailsDialog } from './exchange-details.tsx'
import { Figures } from './figures.tsx'
import { formatTime } from './format.ts'
import { useHost } from './host-connection.ts'
import { Servers } from './servers.tsx'
import { Timeline } from './timeline.tsx'

const VIEWS = { conversation: 'Conversation', timeline: 'Timeline', servers: 'Servers' }

export function App(): ReactElement {
  const { state, lostSince, problem, closeProblem, send } = useHost()
  const [shown, setShown] = useState('conversation')
  const [openId, setOpenId] = useState<number>()
  const open = state.exchanges.find(({ id }) => id === openId)

  return (
    <>
      <header className="bar">
        <h1>MCP session playground</h1>
        <Figures exchanges={state.exchanges} />
      </header>
      {lostSince !== undefined && (
        <p className="banner" role="alert">
          {`No connection to the playground since ${formatTime(lostSince)}. The page connects again by itself, and then shows the current state. If the playground has ended, start it again: `}
          <code>pnpm playground</code>
        </p>
      )}
      {problem !== undefined && (
        <div className="banner bar" role="alert">
          <p className="text">{problem}</p>
          <span className="spacer" />
          <button type="button" onClick={closeProblem}>
            Close
          </button>
        </div>
      )}
      {/* On a narrow screen one part is shown at a time; on a wide one, all three. */}
      <nav className="views" aria-label="Parts of the page">
        {Object.entries(VIEWS).map(([name, label]) => (
          <button
            type="button"
            key={name}
            aria-pressed={name === shown}
            onClick={() => setShown(name)}
          >
            {label}
            {name === 'conversation' && state.run?.state === 'waiting' && ' •'}
          </button>
        ))}
      </nav>
      <main data-view={shown}>
        <Conversation state={state} send={send} />
        <Timeline state={state} selectedId={openId} onOpen={({ id }) => setOpenId(id)} />
        <Servers state={state} send={send} />
      </main>
      {open !== undefined && <DetailsDialog exchange={open} onClose={() => setOpenId(undefined)} />}
    </>
  )
}
