import { useEffect, useState } from 'react'
import type { ReactElement, ReactNode } from 'react'
import type { ExecutionType, ServerTrouble, Trouble } from '../timeline/commands.ts'
import type { ProcessState, ServerState, SessionRecord } from '../timeline/events.ts'
import type { PlaygroundState } from '../timeline/state.ts'
import { formatAge } from './format.ts'
import type { Send } from './host-connection.ts'

/** Processes, servers and stored sessions, with the buttons that make trouble. */
export function Servers({ state, send }: { state: PlaygroundState; send: Send }): ReactElement {
  const { processes, servers } = state
  const running = [processes['agent'], processes['gateway']].filter((one) => one !== undefined)
  return (
    <section className="panel servers" aria-labelledby="servers-title">
      <header className="bar">
        <h2 id="servers-title">Processes and servers</h2>
      </header>
      <div className="scroll stack">
        <h3>Processes</h3>
        {running.length === 0 && <p className="quiet">No process was started yet.</p>}
        {running.map((process) => (
          <ProcessCard
            key={process.name}
            process={process}
            server={servers.find(({ name }) => name === process.name)}
            send={send}
          />
        ))}
        <h3>Servers</h3>
        {servers
          .filter(({ name }) => !(name in processes))
          .map((server) => (
            <Card
              key={server.name}
              of={server}
              title={server.title}
              facts={[server.transport, server.revision]}
            >
              <ServerTroubles server={server} send={send} />
            </Card>
          ))}
        <h3>Load</h3>
        <div className="bar">
          <TroubleButton trouble={{ name: 'parallel-calls' }} send={send}>
            Run 50 parallel calls
          </TroubleButton>
          <TroubleButton trouble={{ name: 'long-task', kill: 'none' }} send={send}>
            Long task
          </TroubleButton>
          <TroubleButton trouble={{ name: 'long-task', kill: 'agent' }} send={send}>
            Long task, kill agent
          </TroubleButton>
          <TroubleButton trouble={{ name: 'long-task', kill: 'gateway' }} send={send}>
            Long task, kill gateway
          </TroubleButton>
        </div>
        <h3>Stored sessions</h3>
        <Records records={state.records} />
      </div>
    </section>
  )
}

interface TroubleButtonProps {
  readonly trouble: Trouble
  readonly send: Send
  /** What a screen reader says, where the text of the button alone does not name its target. */
  readonly label?: string
  readonly children: ReactNode
}

function TroubleButton({ trouble, send, label, children }: TroubleButtonProps): ReactElement {
  const [isBusy, setBusy] = useState(false)
  return (
    <button
      type="button"
      aria-label={label}
      aria-busy={isBusy}
      title={HELP[trouble.name]}
      onClick={() => {
        if (isBusy) return
        setBusy(true)
        void send({ type: 'trouble', trouble }).finally(() => setBusy(false))
      }}
    >
      {children}
    </button>
  )
}

const HELP: Record<Trouble['name'], string> = {
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

interface CardProps {
  readonly of: ProcessState | ServerState
  readonly title?: string
  /** Shown if they are there: process id, model, revision. */
  readonly facts: readonly (string | undefined)[]
  readonly children: ReactNode
}

function Card({ of: { name, state, problem }, title, facts, children }: CardProps): ReactElement {
  return (
    <article className="box bar" data-card={name}>
      <h4 title={title}>{name}</h4>
      <span className={`dot is-${state}`}>{state}</span>
      <span className="quiet meta">{facts.filter(Boolean).join(' · ')}</span>
      {problem !== undefined && <p className="error">{problem}</p>}
      <div className="bar">{children}</div>
    </article>
  )
}

interface ProcessCardProps {
  readonly process: ProcessState
  /** The same process as a server, if it is one. */
  readonly server: ServerState | undefined
  readonly send: Send
}

function ProcessCard({ process, server, send }: ProcessCardProps): ReactElement {
  const { name, pid, model, executionType } = process
  const isAgent = name === 'agent'
  const facts = [
    isAgent ? model : undefined,
    pid === undefined ? undefined : `pid ${pid}`,
    server?.revision,
  ]
  return (
    <Card of={process} facts={facts}>
      <TroubleButton
        trouble={{ name: 'kill-process', process: name }}
        send={send}
        label={`Kill and restart: ${name}`}
      >
        Kill and restart
      </TroubleButton>
      {server !== undefined && (
        <ServerTroubles server={server} except="restart-server" send={send} />
      )}
      {isAgent && <ExecutionTypeSwitch current={executionType} send={send} />}
    </Card>
  )
}

const EXECUTION_TYPES: readonly ExecutionType[] = ['playground', 'runtime']

function ExecutionTypeSwitch({
  current,
  send,
}: {
  current: ExecutionType
  send: Send
}): ReactElement {
  return (
    <div className="bar" role="group" aria-label="Execution type">
      {EXECUTION_TYPES.map((executionType) => (
        <button
          type="button"
          key={executionType}
          aria-pressed={executionType === current}
          title={HELP['set-execution-type']}
          onClick={() => {
            if (executionType === current) return
            void send({ type: 'trouble', trouble: { name: 'set-execution-type', executionType } })
          }}
        >
          {executionType}
        </button>
      ))}
    </div>
  )
}

type ServerTroubleName = ServerTrouble['name']

const SERVER_TROUBLES: readonly ServerTroubleName[] = [
  'forget-sessions',
  'restart-server',
  'cut-connections',
  'switch-era',
]

const MODERN = '2026-07-28'

interface ServerTroublesProps {
  readonly server: ServerState
  readonly except?: ServerTroubleName
  readonly send: Send
}

function ServerTroubles({ server, except, send }: ServerTroublesProps): ReactElement[] {
  const { name, revision, troubles } = server
  const labels: Record<ServerTroubleName, string> = {
    'forget-sessions': 'Forget sessions',
    'restart-server': 'Restart',
    'cut-connections': 'Cut connections',
    'switch-era': revision === MODERN ? 'Switch to sessions' : `Switch to ${MODERN}`,
  }
  return SERVER_TROUBLES.filter((trouble) => troubles.includes(trouble) && trouble !== except).map(
    (trouble) => (
      <TroubleButton
        key={trouble}
        trouble={{ name: trouble, server: name }}
        send={send}
        label={`${labels[trouble]}: ${name}`}
      >
        {labels[trouble]}
      </TroubleButton>
    ),
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
            <td>{formatAge(now - savedAt)}</td>
          </tr>
        ))}
      </tbody>
    </table>
  )
}
