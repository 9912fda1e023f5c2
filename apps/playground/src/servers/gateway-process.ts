// A gateway in its own process, which offers the team of the sample and an agent that takes long. With Redis,
// another process continues a task from its last checkpoint if this one dies. Sends its URL to its parent, and runs
// until the parent kills it or ends.
import { join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import {
  Annotation,
  END,
  isGraphInterrupt,
  MessagesAnnotation,
  START,
  StateGraph,
} from '@langchain/langgraph'
import { SqliteSaver } from '@x/internal/testing/langgraph'
import { bearerAuth, createGateway } from '@x/mcp-gateway'
import { bullmqEngine, redisStore } from '@x/mcp-gateway-redis'
import { openTeam } from '../agent/graph.ts'
import type { Team } from '../agent/graph.ts'
import { createModel, modelName } from '../agent/models.ts'

const { DATA_FOLDER = '', GATEWAY_TOKEN = '', REDIS_URL = '', REPORT_MS = '10000' } = process.env

/** Parts of a report. There is a checkpoint after each of them. */
const PARTS = 5

const State = Annotation.Root({
  message: Annotation<string>(),
  /** The process that wrote each part. */
  writers: Annotation<number[]>({ reducer: (old, added) => [...old, ...added], default: () => [] }),
})

const checkpointer = new SqliteSaver(join(DATA_FOLDER, 'gateway.db'))

const report = new StateGraph(State)
  .addNode('write', async ({ writers }, { signal, writer }) => {
    writer?.({ type: 'status', text: `Part ${writers.length + 1} of ${PARTS}` })
    // The first part takes no time: if this process is killed, the next one finds a part.
    if (writers.length > 0) await sleep(Number(REPORT_MS) / (PARTS - 1), undefined, { signal })
    return { writers: [process.pid] }
  })
  .addEdge(START, 'write')
  .addConditionalEdges('write', ({ writers }) => (writers.length < PARTS ? 'write' : END))
  .compile({ checkpointer })

/** Says which process wrote which parts, so that a report shows that another process continued it. */
function textOf({ message, writers }: typeof State.State): string {
  const parts = [...new Set(writers)].map((pid) => {
    const numbers = writers.flatMap((writer, index) => (writer === pid ? [index + 1] : []))
    return `process ${pid} wrote part ${numbers.join(', ')}`
  })
  return `Report about ${message}: ${parts.join('; ')}.`
}

/** Most runs that keep their sessions while they wait for a person. */
const MAX_WAITING = 20
/** Teams of runs that wait for a person, by thread: a server with sessions waits in the session of its question. */
const waiting = new Map<string, Team>()

/** The team, with sessions of its own for each run: callers must not see each other's baskets. */
const team = new StateGraph(MessagesAnnotation)
  .addNode('team', async ({ messages }, config) => {
    const thread = String(config.configurable?.['thread_id'])
    const model = await createModel(modelName())
    const opened = waiting.get(thread) ?? (await openTeam({ model, executionType: 'runtime' }))
    waiting.delete(thread)
    try {
      return await opened.supervisor.invoke({ messages }, config)
    } catch (error) {
      if (isGraphInterrupt(error)) {
        waiting.set(thread, opened)
        const [oldest] = waiting
        if (oldest !== undefined && waiting.size > MAX_WAITING) {
          waiting.delete(oldest[0])
          await oldest[1][Symbol.asyncDispose]()
        }
      }
      throw error
    } finally {
      if (!waiting.has(thread)) await opened[Symbol.asyncDispose]()
    }
  })
  .addEdge(START, 'team')
  .compile({ checkpointer })

const shared = { url: REDIS_URL, prefix: 'playground' }
const gateway = createGateway({
  agents: {
    shopping_team: { graph: team, description: 'Shops, calculates, and remembers facts.' },
    write_report: {
      graph: report,
      description: 'Writes a report about a topic. Takes long.',
      input: (given) => ({ message: given.kind === 'message' ? given.text : '' }),
      output: textOf,
    },
  },
  auth: bearerAuth(GATEWAY_TOKEN),
  stateKey: GATEWAY_TOKEN,
  tools: { tasks: 'always' },
  log: false,
  ...(REDIS_URL !== '' && { store: redisStore(shared), engine: bullmqEngine(shared) }),
})
if (REDIS_URL !== '') await gateway.work()
const { url } = await gateway.listen({ port: 0 })
process.once('disconnect', () => process.exit())
process.send?.({ type: 'ready', url })
