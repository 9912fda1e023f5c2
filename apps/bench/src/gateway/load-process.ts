// The load on one server, in a process of its own: `<port>`.
import { once } from 'node:events'
import { connect } from 'node:net'
import type { Socket } from 'node:net'
import { median } from '../measure/figure.ts'
import { onConnections } from '../measure/raw-http.ts'
import type { Connection } from '../measure/raw-http.ts'
import { cpuUs, serve } from '../measure/worker.ts'
import {
  ASK_TOOL,
  CALL_TOOL,
  callOf,
  checkAnswer,
  echoOf,
  INITIALIZE,
  MESSAGE,
  messageFrom,
  nowUs,
  PATH,
  postOf,
  sessionRequest,
  TOKEN,
  toolName,
  WAIT_TOOL,
} from './protocol.ts'
import type { Era, Message, Result } from './protocol.ts'

const port = Number(process.argv[2])
/** Connections of `calls`, each with one call in flight. */
const CONNECTIONS = 16
/** Tools that `calls` uses in turn: every server has them. */
const TOOLS = 10
/** Streams that are opened at the same time, so that no queue of a server overflows. */
const STREAMS_AT_ONCE = 50
const CHANGED = 'notifications/tools/list_changed'
const SUBSCRIBED = 'notifications/subscriptions/acknowledged'
/** Until then, each task has been polled several times, and the code is compiled. */
const FOLLOW_WARM_UP_MS = 16_000
const KNOWS_TASKS = {
  'io.modelcontextprotocol/clientCapabilities': {
    elicitation: {},
    extensions: { 'io.modelcontextprotocol/tasks': {} },
  },
}

/** Sessions of `calls`. */
const sessions: string[] = []
const listeners: Stream[] = []
/** Times at which the listeners got the notification that they wait for. */
let notified: Promise<readonly number[]> = Promise.resolve([])
/** Calls that wait until they are cancelled. */
let waiting: readonly { stream: Stream; id: number; session: string | undefined }[] = []
let lastId = 0

const api = {
  /**
   * Calls one tool, or all echo tools in turn; in a session for each connection, where the era has sessions.
   * Returns microseconds.
   */
  async calls(era: Era, times: number, tool?: string) {
    if (era === 'legacy') sessions.push(...(await openSessions(CONNECTIONS - sessions.length)))
    const sessionOf = new Map<Connection, string | undefined>()
    return onAll(times, async (connection) => {
      if (!sessionOf.has(connection)) sessionOf.set(connection, sessions[sessionOf.size])
      const id = ++lastId
      const call = callOf(id, tool ?? toolName(id % TOOLS))
      await answeredIn(connection, postOf(era, call, sessionOf.get(connection)), { id })
    })
  },

  /** Calls one tool again and again, on one connection. Returns the median latency. */
  async singleCalls(times: number, call: { era: Era; tool: string; answer: string }) {
    const { era, tool, answer } = call
    const [session] = era === 'legacy' ? await openSessions(1) : []
    const latencies: number[] = []
    await onConnections({ port, connections: 1, times }, async (connection) => {
      const id = ++lastId
      const request = postOf(era, callOf(id, tool), session)
      latencies.push(await answeredIn(connection, request, { id, answer }))
    })
    return median(latencies)
  },

  /** Makes calls as a client that knows tasks. They do not become tasks. Returns microseconds. */
  plainCalls: (times: number) =>
    onAll(times, async (connection) => {
      const id = ++lastId
      checkAnswer(await bodyFor(connection, callOf(id, CALL_TOOL)), id)
    }),
  /** Creates tasks, and polls each of them until it has its result. Returns microseconds. */
  tasks: (times: number) =>
    onAll(times, async (connection) => {
      const { status, result } = await taskThatSettles(connection, toolName(1))
      if (result?.content?.[0]?.text === echoOf(MESSAGE)) return
      throw new Error(`A task ended as ${status} with a wrong result`)
    }),
  /** Creates tasks that wait for an answer. */
  waitingTasks: (times: number) =>
    onAll(times, async (connection) => {
      const { status } = await taskThatSettles(connection, ASK_TOOL)
      if (status !== 'input_required') throw new Error(`A task that asked is ${status}`)
    }),
  /** Waits for many tasks with one client. Returns its share of a core in percent, and its polls per second. */
  async follow(count: number, ms: number) {
    let polls = 0
    const { McpClient } = await import('@x/mcp-client')
    const headers = { authorization: `Bearer ${TOKEN}` }
    await using client = new McpClient({ url: `http://127.0.0.1:${port}${PATH}`, headers })
    client.on('exchange', ({ rpcMethod }) => {
      if (rpcMethod === 'tasks/get') polls += 1
    })
    const started = await Promise.all(
      Array.from({ length: count }, () => client.startTool(WAIT_TOOL, { message: MESSAGE })),
    )
    for (const { task } of started) {
      if (task === undefined) throw new Error('A call did not become a task')
      task.result().catch(() => undefined) // rejects when the client is disposed of
    }
    await new Promise((resolve) => setTimeout(resolve, FOLLOW_WARM_UP_MS))
    const before = { cpuUs: cpuUs(), at: performance.now(), polls }
    await new Promise((resolve) => setTimeout(resolve, ms))
    const passedMs = performance.now() - before.at
    return {
      share: (cpuUs() - before.cpuUs) / passedMs / 10,
      polls: ((polls - before.polls) / passedMs) * 1000,
    }
  },

  async openSessions(count: number) {
    await openSessions(count)
  },

  /** Opens streams that receive changes of the tools. */
  async listen(era: Era, count: number) {
    const opened = era === 'legacy' ? await openSessions(count) : []
    for (let at = 0; at < count; at += STREAMS_AT_ONCE) {
      const length = Math.min(STREAMS_AT_ONCE, count - at)
      const requests = Array.from({ length }, (_, index) =>
        era === 'legacy'
          ? sessionRequest('GET', opened[at + index] ?? '')
          : postOf('modern', {
              method: 'subscriptions/listen',
              id: at + index + 1,
              params: { notifications: { toolsListChanged: true } },
            }),
      )
      const streams = await Promise.all(requests.map((request) => Stream.open(request)))
      const text = era === 'legacy' ? ' 200 OK' : SUBSCRIBED
      await Promise.all(streams.map((stream) => stream.receives(text)))
      listeners.push(...streams)
    }
  },
  /** Lets each listener wait for one notification. */
  expectChange() {
    notified = Promise.all(listeners.map((stream) => stream.receives(CHANGED)))
    notified.catch(() => undefined) // `lastNotifiedAt` rejects
  },
  /** Time at which the last listener got its notification. */
  lastNotifiedAt: async () => Math.max(...(await notified)),
  /** Number of notifications of the listener that got most of them. */
  mostNotifications: () => Math.max(...listeners.map((stream) => stream.count(CHANGED))),

  /** Starts calls; with `separate`, each in a session of its own where the era has sessions. */
  async startCalls(era: Era, tool: string, calls: { count: number; separate: boolean }) {
    const { count, separate } = calls
    const opened = era === 'legacy' ? await openSessions(separate ? count : 1) : []
    waiting = await Promise.all(
      Array.from({ length: count }, async (_, index) => {
        const session = opened[index] ?? opened[0]
        const id = index + 1
        return { stream: await Stream.open(postOf(era, callOf(id, tool), session)), id, session }
      }),
    )
  },
  /** Closes the connections of all calls. Returns the time at which it started, as the next two do. */
  dropCalls() {
    const at = nowUs()
    for (const { stream } of waiting) stream.close()
    return at
  },
  /** Sends `notifications/cancelled` for all calls. */
  cancelCalls: () =>
    forEachCall(({ id, session }) =>
      postOf('legacy', { method: 'notifications/cancelled', params: { requestId: id } }, session),
    ),
  /** Ends the sessions of all calls. */
  endSessions: () => forEachCall(({ session }) => sessionRequest('DELETE', session ?? '')),
}
export type LoadApi = typeof api

/** Runs `work` so many times on all connections. Returns microseconds. */
async function onAll(
  times: number,
  work: (connection: Connection) => Promise<void>,
): Promise<number> {
  const startedAt = performance.now()
  await onConnections({ port, connections: CONNECTIONS, times }, work)
  return (performance.now() - startedAt) * 1000
}

/** Sends a request of a client that knows tasks, and returns the body of the answer. */
async function bodyFor(connection: Connection, { method, id, params }: Message): Promise<string> {
  const message = { method, id, params: { ...params, _meta: KNOWS_TASKS } }
  return (await connection.request(postOf('modern', message))).body
}

/** Creates a task, and polls it until it does not work any more. */
async function taskThatSettles(connection: Connection, tool: string): Promise<Result> {
  let message = callOf(++lastId, tool)
  for (;;) {
    const body = await bodyFor(connection, message)
    const { result } = messageFrom(body)
    const taskId = result?.taskId
    if (taskId === undefined) throw new Error(`The answer is not a task: ${body.slice(0, 300)}`)
    if (message.method === 'tasks/get' && result?.status !== 'working') return result ?? {}
    message = { method: 'tasks/get', id: ++lastId, params: { taskId } }
  }
}

/** Sends a call, and checks its answer. Returns the latency in milliseconds. */
async function answeredIn(
  connection: Connection,
  request: string,
  { id, answer }: { readonly id: number; readonly answer?: string },
): Promise<number> {
  const sentAt = performance.now()
  const { status, body } = await connection.request(request)
  const latency = performance.now() - sentAt
  if (status !== 200) throw new Error(`A call was answered with ${status}: ${body}`)
  checkAnswer(body, id, answer)
  return latency
}

/** Opens sessions, eight at a time. Returns their ids. */
async function openSessions(count: number): Promise<readonly string[]> {
  const opened: string[] = []
  await onConnections({ port, connections: 8, times: count }, async (connection) => {
    const { status, session, body } = await connection.request(postOf('legacy', INITIALIZE))
    if (status !== 200 || session === undefined) {
      throw new Error(`No session was opened: ${status} ${body.slice(0, 200)}`)
    }
    const message = { method: 'notifications/initialized' }
    const ready = await connection.request(postOf('legacy', message, session))
    if (ready.status !== 202) throw new Error(`A session is not initialized: ${ready.status}`)
    opened.push(session)
  })
  return opened
}

async function forEachCall(requestOf: (call: (typeof waiting)[number]) => string): Promise<number> {
  const at = nowUs()
  const all = { port, connections: waiting.length, times: waiting.length }
  await onConnections(all, async (connection, turn) => {
    const call = waiting[turn]
    if (call !== undefined) await connection.request(requestOf(call))
  })
  return at
}

/** A connection whose answer does not end. */
class Stream {
  readonly #socket: Socket
  #received = ''
  #awaited: { readonly text: string; readonly found: (atUs: number) => void } | undefined

  private constructor(socket: Socket) {
    this.#socket = socket
    socket.setEncoding('latin1')
    socket.on('data', (text: string) => {
      this.#received += text
      this.#check()
    })
    socket.on('error', () => undefined) // a server that stops resets its connections
  }

  static async open(request: string): Promise<Stream> {
    const socket = connect({ port, host: '127.0.0.1', noDelay: true })
    await once(socket, 'connect')
    const stream = new Stream(socket)
    socket.write(request, 'latin1')
    return stream
  }

  /** Resolves to the time at which a text arrives, after those that were awaited before. */
  receives(text: string): Promise<number> {
    return new Promise((found, reject) => {
      this.#awaited = { text, found }
      this.#socket.once('close', () => reject(new Error(`A stream ended before ${text}`)))
      this.#check()
    })
  }

  /** How often a text came since the last one that was awaited. */
  count(text: string): number {
    return this.#received.split(text).length - 1
  }

  close(): void {
    this.#socket.destroy()
  }

  #check(): void {
    const awaited = this.#awaited
    if (awaited === undefined) return
    const at = this.#received.indexOf(awaited.text)
    if (at === -1) return
    this.#received = this.#received.slice(at + awaited.text.length)
    this.#awaited = undefined
    this.#socket.removeAllListeners('close')
    awaited.found(nowUs())
  }
}

serve(api)
