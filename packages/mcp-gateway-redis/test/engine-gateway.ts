// A gateway with an engine. Its graphs count their nodes in a folder, and wait there for files.
import { join } from 'node:path'
import { Annotation, interrupt, StateGraph } from '@langchain/langgraph'
import type { BaseCheckpointSaver } from '@langchain/langgraph'
import { PostgresSaver } from '@langchain/langgraph-checkpoint-postgres'
import { SqliteSaver } from '@x/internal/testing/langgraph'
import { bearerAuth, createGateway, langGraphServerSource, type Clock } from '@x/mcp-gateway'
import { a2aSource } from '../../mcp-gateway-a2a/src/index.ts'
import { bullmqEngine, redisStore } from '../src/index.ts'
import { countNode } from './worker-graph.ts'

export interface EngineGatewaySettings {
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
  /** For a gateway in the process of the test. */
  readonly clock?: Clock
}

export interface EngineGateway extends AsyncDisposable {
  /** Empty if it does not listen. */
  readonly url: string
}

const State = Annotation.Root({ message: Annotation<string>(), steps: Annotation<string>() })

function threeSteps(folder: string, checkpointer?: BaseCheckpointSaver) {
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

function asking(folder: string, checkpointer: BaseCheckpointSaver) {
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

const output = ({ steps }: { readonly steps?: string }): string => steps ?? ''
const input = (given: { readonly kind: string; readonly text?: string }): unknown => ({
  message: given.text ?? '',
})
const offered = { input, output } as const

/** Starts a gateway that listens, or executes tasks, or both. */
export async function startEngineGateway(settings: EngineGatewaySettings): Promise<EngineGateway> {
  const { redis: url, prefix, folder, postgres, a2a, langGraph } = settings
  const checkpointer = postgres
    ? await openPostgres(postgres)
    : new SqliteSaver(join(folder, 'checkpoints.db'))
  const store = redisStore({ url, prefix, timeoutMs: 300_000 })
  const engine = bullmqEngine({ url, prefix, onWarning: () => {} })
  const gateway = createGateway({
    agents: {
      durable: { graph: threeSteps(folder, checkpointer), description: 'Three steps', ...offered },
      fragile: { graph: threeSteps(folder), description: 'Three steps', ...offered },
      asking: { graph: asking(folder, checkpointer), description: 'Asks a question', ...offered },
    },
    sources: [
      ...(langGraph === undefined ? [] : [langGraphServerSource(langGraph)]),
      ...(a2a === undefined
        ? []
        : [a2aSource({ cards: [a2a], trustedOrigins: [new URL(a2a).origin], pollMs: 20 })]),
    ],
    auth: bearerAuth('token-of-the-test-0123456789'),
    stateKey: 'a key that all processes of this test share',
    store,
    engine,
    clock: settings.clock,
    log: false,
    http: { port: 0 },
  })
  if (settings.works) await gateway.work()
  return {
    url: settings.listens ? (await gateway.listen()).url : '',
    async [Symbol.asyncDispose]() {
      await gateway[Symbol.asyncDispose]()
      await engine[Symbol.asyncDispose]()
      await store[Symbol.asyncDispose]()
      if (checkpointer instanceof PostgresSaver) await checkpointer.end()
    },
  }
}
