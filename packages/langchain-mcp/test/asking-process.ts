// A graph in its own process, with a thread that outlives it. Executes the commands of its parent until it is
// killed.
import { flushCompileCache } from 'node:module'
import { join } from 'node:path'
import { SqliteSaver, SqliteStore } from '@x/internal/testing/langgraph'
import { McpClient } from '@x/mcp-client'
import { elicitationToInterrupt, loadMcpTools } from '../src/index.ts'
import { askingGraph, type AskingGraphOptions, type Calling, type Turn } from './asking-graph.ts'

/** A command of the parent. Without `resume`, the thread starts or continues. */
export interface Order {
  readonly calls: readonly Calling[]
  readonly resume?: Readonly<Record<string, unknown>>
  readonly goOn?: boolean
  /** @default 'fanOutToolCalls' */
  readonly kind?: AskingGraphOptions['kind']
  readonly thread?: string
  readonly durability?: 'sync' | 'exit'
  readonly isWithoutStore?: boolean
}

/** Messages of the process. */
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

process.on('message', ({ resume, goOn, isWithoutStore, ...order }: Order) => {
  const kept = { checkpointer, store: isWithoutStore === true ? undefined : store }
  const graph = askingGraph({ kind: 'fanOutToolCalls', tools, ...kept, ...order })
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
flushCompileCache() // a killed process loses its compiled code
process.send?.('ready')
