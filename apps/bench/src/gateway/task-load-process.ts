// Calls and tasks on one gateway, in a process of its own: `<port>`.
import { subscribe } from 'node:diagnostics_channel'
import { McpClient } from '@x/mcp-client'
import { onConnections } from '../measure/raw-http.ts'
import type { Connection } from '../measure/raw-http.ts'
import { cpuUs, serve } from '../measure/worker.ts'
import type { Message } from './protocol.ts'
import {
  callOf,
  checkAnswer,
  echoOf,
  MESSAGE,
  messageFrom,
  PATH,
  postOf,
  TOKEN,
} from './protocol.ts'

const port = Number(process.argv[2])
const CONNECTIONS = 16
/** Until then, each task has been polled beside the stream of notifications, and the code is compiled. */
const WARM_UP_MS = 16_000
const capabilities = { elicitation: {}, extensions: { 'io.modelcontextprotocol/tasks': {} } }
const DECLARED = { 'io.modelcontextprotocol/clientCapabilities': capabilities }
let lastId = 0

interface Task {
  readonly taskId?: unknown
  readonly status?: string
  readonly result?: { readonly content?: readonly { readonly text?: string }[] }
}

/** Sends a request of a client that knows tasks, and returns the body of the answer. */
async function bodyFor(connection: Connection, { method, id, params }: Message): Promise<string> {
  const message = { method, id, params: { ...params, _meta: DECLARED } }
  return (await connection.request(postOf('modern', message))).body
}

async function taskFrom(connection: Connection, message: Message): Promise<Task> {
  const body = await bodyFor(connection, message)
  const task = messageFrom(body).result as Task | undefined
  if (task?.taskId === undefined) throw new Error(`The answer is not a task: ${body.slice(0, 300)}`)
  return task
}

const created = (connection: Connection, name: string): Promise<Task> =>
  taskFrom(connection, callOf(++lastId, name))

const polled = (connection: Connection, taskId: unknown): Promise<Task> =>
  taskFrom(connection, { method: 'tasks/get', id: ++lastId, params: { taskId } })

const api = {
  /** Calls a tool whose calls do not become tasks, by the same client. Returns 0, because nothing is polled. */
  async calls(times: number) {
    await onConnections({ port, connections: CONNECTIONS, times }, async (connection) => {
      const id = ++lastId
      checkAnswer(await bodyFor(connection, callOf(id, 'bench_call')), id)
    })
    return 0
  },
  /** Creates tasks, and polls each of them until it has its result. Returns the number of polls. */
  async tasks(times: number) {
    let polls = 0
    await onConnections({ port, connections: CONNECTIONS, times }, async (connection) => {
      const { taskId } = await created(connection, 'bench_echo')
      for (;;) {
        polls += 1
        const { status, result } = await polled(connection, taskId)
        if (status === 'working') continue
        if (result?.content?.[0]?.text === echoOf(MESSAGE)) return
        throw new Error(`A task ended as ${status} with a wrong result`)
      }
    })
    return polls
  },
  /** Creates tasks that wait for an answer. */
  async waitingTasks(times: number) {
    await onConnections({ port, connections: CONNECTIONS, times }, async (connection) => {
      const { taskId } = await created(connection, 'bench_ask')
      let status: string | undefined
      do ({ status } = await polled(connection, taskId))
      while (status === 'working')
      if (status !== 'input_required') throw new Error(`A task that asked is ${status}`)
    })
  },
  /** Waits for many tasks with one client. Returns its share of a core in percent, and its polls per second. */
  async follow(count: number, ms: number) {
    let polls = 0
    subscribe('x:mcp:exchange', (event) => {
      if ((event as { readonly rpcMethod?: string }).rpcMethod === 'tasks/get') polls += 1
    })
    const headers = { authorization: `Bearer ${TOKEN}` }
    await using client = new McpClient({ url: `http://127.0.0.1:${port}${PATH}`, headers })
    const started = await Promise.all(
      Array.from({ length: count }, () => client.startTool('bench_wait', { message: MESSAGE })),
    )
    for (const { task } of started) {
      if (task === undefined) throw new Error('A call did not become a task')
      task.result().catch(() => undefined) // rejects when the client is disposed of
    }
    await new Promise((resolve) => setTimeout(resolve, WARM_UP_MS))
    const before = { cpuUs: cpuUs(), at: performance.now(), polls }
    await new Promise((resolve) => setTimeout(resolve, ms))
    const passedMs = performance.now() - before.at
    return {
      share: (cpuUs() - before.cpuUs) / passedMs / 10,
      polls: ((polls - before.polls) / passedMs) * 1000,
    }
  },
}
export type TaskLoadApi = typeof api
serve(api)
