// A graph in a process of its own, whose thread outlives it. Does what its parent says, until it is killed.
import { flushCompileCache } from 'node:module'
import { join } from 'node:path'
import { SqliteSaver, SqliteStore } from '@x/internal/testing/langgraph'
import { McpClient } from '@x/mcp-client'
import { elicitationToInterrupt, loadMcpTools, type InterruptResume } from '../src/index.ts'
import { askingGraph, type Calling, type Turn } from './asking-graph.ts'

/** What the parent says. Without `resume` the thread goes on, or begins. */
export interface Order {
  readonly calls: readonly Calling[]
  readonly resume?: InterruptResume
  readonly goOn?: boolean
}

/** What it is told. */
export interface Told {
  readonly error?: string
  readonly interrupts: Turn['interrupts']
  readonly answers: Readonly<Record<string, string>>
}

const { SERVER_URL = '', DATA_FOLDER = '', WITH_STORE = '' } = process.env
const elicitation = elicitationToInterrupt()
const client = new McpClient({ url: SERVER_URL }, { handlers: elicitation.handlers })
const tools = await loadMcpTools(client, { elicitation })
const checkpointer = new SqliteSaver(join(DATA_FOLDER, 'checkpoints.db'))
const store = WITH_STORE === '' ? undefined : new SqliteStore(join(DATA_FOLDER, 'store.db'))

process.on('message', ({ calls, resume, goOn }: Order) => {
  const graph = askingGraph({ kind: 'fanOutToolCalls', tools, calls, checkpointer, store })
  const turn = resume === undefined ? (goOn ? graph.goOn() : graph.start()) : graph.resume(resume)
  turn
    .then(({ interrupts, answers }): Told => ({
      interrupts,
      answers: Object.fromEntries(
        Object.entries(answers).map(([id, { status, text }]) => [id, `${status}: ${text}`]),
      ),
    }))
    .catch((error: unknown): Told => ({ error: String(error), interrupts: [], answers: {} }))
    .then((told) => process.send?.(told))
    .catch(() => process.exit(1))
})
flushCompileCache() // a process that is killed keeps nothing of what it has compiled
process.send?.('ready')
