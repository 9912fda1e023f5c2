import { useEffect, useState } from 'react'
import type { ReactElement, ReactNode } from 'react'
import type { ExecutionType, Trouble } from '../timeline/commands.ts'
import type { ProcessState, ServerState, SessionRecord } from '../timeline/events.ts'
import type { PlaygroundState } from '../timeline/state.ts'
import { formatDuration } from './format.ts'
import type { Send } from './host-connection.ts'

const EXECUTION_TYPES: readonly ExecutionType[] = ['playground', 'runtime']

const LOAD: readonly (readonly [string, Trouble])[] = [
  ['Run 50 parallel calls', { name: 'parallel-calls' }],
  ['Long task', { name: 'long-task', kill: 'none' }],
  ['Long task, kill agent', { name: 'long-task', kill: 'agent' }],
  ['Long task, kill gateway', { name: 'long-task', kill: 'gateway' }],
]

/** Processes, servers and stored sessions, with the buttons that make trouble. */
export function Servers({ state, send }: { state: PlaygroundState; send: Send }): ReactElement {
  const processes = Object.values(state.processes)
  const ofServer = ({ name: server, troubles, revision }: ServerState): ReactElement[] =>
    troubles.map((name) => {
      const text = name === 'switch-era' && revision === MODERN ? 'Switch to sessions' : TEXTS[name]
      return <Button key={name} text={text} of={server} trouble={{ name, server }} send={send} />
    })
  return (
    <section className="panel servers" aria-labelledby="servers-title">
      <header className="bar">
        <h2 id="servers-title">Processes and servers</h2>
      </header>
      <div className="scroll stack">
        <h3>Processes</h3>
        {processes.length === 0 && <p className="quiet">No process was started yet.</p>}
        {processes.map((process) => {
          const { name, pid, model, executionType: current } = process
          const server = state.servers.find((one) => one.name === name)
          const facts = [name === 'agent' && model, pid && `pid ${pid}`, server?.revision]
          const kill = { name: 'kill-process', process: name } as const
          return (
            <Card key={name} of={process} facts={facts}>
              <Button text="Kill and restart" of={name} trouble={kill} send={send} />
              {server && ofServer(server)}
              {name === 'agent' && (
                <div className="bar" role="group" aria-label="Execution type">
                  {EXECUTION_TYPES.map((executionType) => (
                    <Button
                      key={executionType}
                      text={executionType}
                      isPressed={executionType === current}
                      trouble={{ name: 'set-execution-type', executionType }}
                      send={send}
                    />
                  ))}
                </div>
              )}
            </Card>
          )
        })}
        <h3>Servers</h3>
        {state.servers
          .filter(({ name }) => !(name in state.processes))
          .map((server) => (
            <Card key={server.name} of={server} facts={[server.transport, server.revision]}>
              {ofServer(server)}
            </Card>
          ))}
        <h3>Load</h3>
        <div className="bar">
          {LOAD.map(([text, trouble]) => (
            <Button key={text} text={text} trouble={trouble} send={send} />
          ))}
        </div>
        <h3>Stored sessions</h3>
        <Records records={state.records} />
      </div>
    </section>
  )
}

interface CardProps {
  readonly of: ProcessState | ServerState
  /** Shown if they are there: process id, model, revision. */
  readonly facts: readonly (string | number | false | undefined)[]
  readonly children: ReactNode
}

function Card({ of, facts, children }: CardProps): ReactElement {
  const { name, state, problem } = of
  return (
    <article className="box bar" data-card={name}>
      <h4 title={'title' in of ? of.title : undefined}>{name}</h4>
      <span className={`dot is-${state}`}>{state}</span>
      <span className="quiet meta">{facts.filter(Boolean).join(' · ')}</span>
      {problem !== undefined && <p className="error">{problem}</p>}
      <div className="bar">{children}</div>
    </article>
  )
}

const MODERN = '2026-07-28'

const TEXTS = {
  'forget-sessions': 'Forget sessions',
  'restart-server': 'Restart',
  'cut-connections': 'Cut connections',
  'switch-era': `Switch to ${MODERN}`,
}

const HELP: Readonly<Record<Trouble['name'], string>> = {
  'forget-sessions':
    'The server forgets its sessions: the next call gets 404, opens a new session and arrives.',
  'restart-server': 'Stops the server and starts it again, without its sessions.',
  'cut-connections': 'Ends all open connections to the server.',
  'switch-era': 'The server changes between sessions (2025-11-25) and no sessions (2026-07-28).',
  'kill-process': 'SIGKILL, then a new process. The agent resumes its stored sessions.',
  'set-execution-type':
    'Playground: sessions are stored and outlive the process. Runtime: they end with it.',
  'parallel-calls': '50 calls of one tool at once: they share one session.',
  'long-task': 'A task of about ten seconds at the gateway.',
}

interface ButtonProps {
  readonly text: string
  /** Process or server that it is about: a screen reader says it too. */
  readonly of?: string
  readonly isPressed?: boolean
  readonly trouble: Trouble
  readonly send: Send
}

function Button({ text, of, isPressed, trouble, send }: ButtonProps): ReactElement {
  const [isBusy, setBusy] = useState(false)
  return (
    <button
      type="button"
      aria-label={of && `${text}: ${of}`}
      aria-pressed={isPressed}
      aria-busy={isBusy}
      title={HELP[trouble.name]}
      onClick={() => {
        if (isBusy || isPressed) return
        setBusy(true)
        void send({ type: 'trouble', trouble }).finally(() => setBusy(false))
      }}
    >
      {text}
    </button>
  )
}

const AGES_MS = 5000

function Records({ records }: { records: readonly SessionRecord[] }): ReactElement {
  const [now, setNow] = useState(Date.now)
  useEffect(() => {
    setNow(Date.now())
    const timer = setInterval(() => setNow(Date.now()), AGES_MS)
    return () => clearInterval(timer)
  }, [records])
  if (records.length === 0) {
    return (
      <p className="quiet">
        No session is stored. The agent stores one after its first call, if its execution type is
        playground.
      </p>
    )
  }
  return (
    <table>
      <thead>
        <tr>
          <th scope="col">Server</th>
          <th scope="col">Session</th>
          <th scope="col">Era</th>
          <th scope="col">Stored</th>
        </tr>
      </thead>
      <tbody>
        {records.map(({ server, sessionId, era, revision, savedAt }) => (
          <tr key={server}>
            <th scope="row">{server}</th>
            <td>
              <code>{sessionId ?? 'none'}</code>
            </td>
            <td title={revision}>{era}</td>
            <td>{`${formatDuration(Math.max(0, now - savedAt))} ago`}</td>
          </tr>
        ))}
      </tbody>
    </table>
  )
}
