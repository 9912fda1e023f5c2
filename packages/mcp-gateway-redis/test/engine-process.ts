// A process of a gateway with an engine. It listens, or executes tasks, or both. Its graphs count their nodes in a folder,
// and wait there for files. Runs until its input ends, or until it is killed.
import { flushCompileCache } from 'node:module'
import { join } from 'node:path'
import { Annotation, interrupt, StateGraph } from '@langchain/langgraph'
import type { BaseCheckpointSaver } from '@langchain/langgraph'
import { PostgresSaver } from '@langchain/langgraph-checkpoint-postgres'
import { SqliteSaver } from '@x/internal/testing/langgraph'
import { bearerAuth, createGateway, langGraphServerSource } from '@x/mcp-gateway'
import { a2aSource } from '../../mcp-gateway-a2a/src/index.ts'
import { bullmqEngine, redisStore } from '../src/index.ts'
import { countNode } from './worker-graph.ts'

/** What the process does. */
export interface EngineProcessSettings {
  readonly redis: string
  readonly prefix: string
  /** Files of the graphs, and of their checkpoints. */
  readonly folder: string
  /** URL of a database for the checkpoints instead. Processes then need not share the folder. */
  readonly postgres?: string | undefined
  readonly listens?: boolean
  readonly works?: boolean
  /** URL of a LangGraph server whose assistants are offered too. */
  readonly langGraph?: string
  /** URL of the card of an A2A agent that is offered too. */
  readonly a2a?: string
}

const settings = JSON.parse(process.argv[2] ?? '{}') as EngineProcessSettings
const { redis: url, prefix, folder, postgres, listens = false, works = false } = settings
const { a2a, langGraph } = settings

const State = Annotation.Root({ message: Annotation<string>(), steps: Annotation<string>() })

function threeSteps(checkpointer: BaseCheckpointSaver | undefined) {
  const step = (name: string) => async (state: typeof State.State) => {
    await countNode(folder, name, state.message)
    return { steps: `${state.steps ?? ''}${name} ` }
  }
  return new StateGraph(State)
    .addNode('first', step('first'))
    .addNode('second', step('second'))
    .addNode('third', step('third'))
    .addEdge('__start__', 'first')
    .addEdge('first', 'second')
    .addEdge('second', 'third')
    .compile(checkpointer && { checkpointer })
}

function asking(checkpointer: BaseCheckpointSaver) {
  return new StateGraph(State)
    .addNode('ask', async ({ message }) => {
      const answer: unknown = interrupt({ question: 'Which size?' })
      await countNode(folder, 'answered', message)
      return { steps: JSON.stringify(answer) }
    })
    .addNode('after', async ({ message }) => {
      await countNode(folder, 'after', message)
      return {}
    })
    .addEdge('__start__', 'ask')
    .addEdge('ask', 'after')
    .compile({ checkpointer })
}

async function openPostgres(address: string): Promise<PostgresSaver> {
  const saver = PostgresSaver.fromConnString(address)
  await saver.setup()
  return saver
}

const checkpointer = postgres
  ? await openPostgres(postgres)
  : new SqliteSaver(join(folder, 'checkpoints.db'))
const output = ({ steps }: { readonly steps?: string }): string => steps ?? ''
const input = (given: { readonly kind: string; readonly text?: string }): unknown => ({
  message: given.text ?? '',
})
const offered = { input, output } as const
await using store = redisStore({ url, prefix, timeoutMs: 10_000 })
await using engine = bullmqEngine({ url, prefix, onWarning: () => {} })
await using gateway = createGateway({
  agents: {
    durable: { graph: threeSteps(checkpointer), description: 'Three steps', ...offered },
    fragile: { graph: threeSteps(undefined), description: 'Three steps', ...offered },
    asking: { graph: asking(checkpointer), description: 'Asks a question', ...offered },
  },
  sources: [
    ...(langGraph === undefined ? [] : [langGraphServerSource(langGraph)]),
    ...(a2a === undefined
      ? []
      : [a2aSource({ cards: [a2a], trustedOrigins: [new URL(a2a).origin], pollMs: 20 })]),
  ],
  auth: bearerAuth('token-of-the-test-0123456789'),
  secrets: { stateKey: 'a key that all processes of this test share' },
  store,
  engine,
  logger: false,
  http: { port: 0 },
})
if (works) await gateway.work()
const address = listens ? (await gateway.listen()).url : ''
flushCompileCache() // a killed process loses its compiled code
process.stdout.write(`ready ${address}\n`)
await new Promise<void>((resolve) => {
  process.stdin.once('end', resolve).resume()
  process.once('SIGTERM', resolve)
})
if (checkpointer instanceof PostgresSaver) await checkpointer.end()
process.stdin.destroy() // the process now ends when the gateway has closed everything
