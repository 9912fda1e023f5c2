import { setTimeout as delay } from 'node:timers/promises'
import { startRecordingProxy, startLegacyServer } from '@x/mcp-testing'
import type { LossFormName } from '@x/mcp-testing'
import { within } from '../check.ts'
import type { Connected, Subject } from './subjects.ts'

/** One fault, and what comes of it in a few words. */
export interface Scenario {
  readonly name: string
  readonly run: (subject: Subject) => Promise<string>
}

/** How long an answer that does not come is waited for. */
const PATIENCE_MS = 4000
/** How long it is watched who comes back for a stream that the server closes. */
const WATCHED_MS = 5500

export const SCENARIOS: readonly Scenario[] = [
  { name: 'session forgotten, 404', run: (subject) => loss(subject, '404-32001') },
  { name: 'session forgotten, 400', run: (subject) => loss(subject, '400-no-valid') },
  { name: 'connection reset in mid-call', run: reset },
  { name: 'event stream ends without an answer', run: streamEnd },
  { name: `listening stream closed at once, ${WATCHED_MS / 1000} s`, run: churn },
  { name: 'sessions left after close', run: left },
]

async function loss(subject: Subject, lossForm: LossFormName): Promise<string> {
  await using server = await startLegacyServer({ lossForm })
  return await connectedTo(subject, server.url, async ({ call }) => {
    await call('counter_add')
    server.forgetSessions()
    const first = await outcomeOf(call('counter_add'))
    const second = await outcomeOf(call('counter_add'))
    if (first === 'answered') return 'healed'
    return second === 'answered' ? 'healed by the next call' : 'never recovers'
  })
}

async function reset(subject: Subject): Promise<string> {
  await using server = await startLegacyServer()
  await using proxy = await startRecordingProxy(server.url)
  proxy.inject({
    match: ({ toolName }) => toolName === 'counter_add',
    times: 1,
    action: 'reset-after',
  })
  return await connectedTo(subject, proxy.url, async ({ call }) => {
    const outcome = await outcomeOf(call('counter_add'))
    return `${outcome}; executed ${server.executions('counter_add')}×`
  })
}

async function streamEnd(subject: Subject): Promise<string> {
  await using server = await startLegacyServer({ answerAs: 'sse', eventIds: false })
  return await connectedTo(subject, server.url, async ({ call }) => {
    const startedAt = performance.now()
    const outcome = outcomeOf(call('slow'))
    await server.waitFor(({ toolName }) => toolName === 'slow')
    server.dropAnswerStreams()
    const told = await outcome
    const seconds = ((performance.now() - startedAt) / 1000).toFixed(1)
    return told === 'silence' ? `nothing for ${seconds} s` : `${told} after ${seconds} s`
  })
}

async function churn(subject: Subject): Promise<string> {
  await using server = await startLegacyServer({ listenStream: 'close-at-once' })
  return await connectedTo(subject, server.url, async ({ call }) => {
    await call('counter_add')
    await delay(WATCHED_MS) // what is measured is who comes back in this time
    return `${server.count('GET')} GETs`
  })
}

async function left(subject: Subject): Promise<string> {
  await using server = await startLegacyServer()
  await connectedTo(subject, server.url, ({ call }) => call('counter_add'))
  return String(server.sessions.length)
}

async function connectedTo<T>(
  subject: Subject,
  url: string,
  use: (connected: Connected) => Promise<T>,
): Promise<T> {
  const connected = await subject.connect(url)
  try {
    return await use(connected)
  } finally {
    await within(PATIENCE_MS, connected.close()).catch(() => {})
  }
}

async function outcomeOf(call: Promise<string>): Promise<'answered' | 'failed' | 'silence'> {
  const settled = call.then(
    () => 'answered' as const,
    () => 'failed' as const,
  )
  return within(PATIENCE_MS, settled).catch(() => 'silence' as const)
}
