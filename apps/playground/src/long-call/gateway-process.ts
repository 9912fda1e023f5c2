// A gateway in its own process. It offers an agent that takes long. With Redis, another process continues the
// agent's graph from its last checkpoint if this one dies. Runs until its parent kills it or ends.
import { appendFileSync } from 'node:fs'
import { readFile } from 'node:fs/promises'
import { join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import { Annotation, START, StateGraph } from '@langchain/langgraph'
import { SqliteSaver } from '@x/internal/testing/langgraph'
import { bearerAuth, createGateway } from '@x/mcp-gateway'
import { bullmqEngine, redisStore } from '@x/mcp-gateway-redis'

const { DATA_FOLDER = '', GATEWAY_TOKEN = '', REDIS_URL = '' } = process.env

const State = Annotation.Root({ message: Annotation<string>(), report: Annotation<string>() })

/** Counts an execution of a node, for all processes. */
function count(node: string): void {
  appendFileSync(join(DATA_FOLDER, 'nodes.txt'), `${node}\n`)
}

/** Waits for a file that arrives while the call runs. */
async function tideTable(signal: AbortSignal | undefined): Promise<string> {
  for (;;) {
    const text = await readFile(join(DATA_FOLDER, 'tides.txt'), 'utf8').catch(() => '')
    if (text !== '') return text
    await sleep(50, undefined, { signal })
  }
}

const graph = new StateGraph(State)
  .addNode('prepare', () => {
    count('prepare')
    return {}
  })
  .addNode('write', async ({ message }, { signal }) => {
    count('write')
    return { report: `Report about ${message}: ${await tideTable(signal)}` }
  })
  .addEdge(START, 'prepare')
  .addEdge('prepare', 'write')
  .compile({ checkpointer: new SqliteSaver(join(DATA_FOLDER, 'gateway.db')) })

const shared = { url: REDIS_URL, prefix: 'demo' }
const gateway = createGateway({
  agents: {
    write_report: {
      graph,
      description: 'Writes a report about a topic. Takes long.',
      input: (given) => ({ message: given.kind === 'message' ? given.text : '' }),
      output: ({ report }: typeof State.State) => report,
    },
  },
  auth: bearerAuth(GATEWAY_TOKEN),
  secrets: { stateKey: GATEWAY_TOKEN },
  tools: { tasks: 'always' },
  logger: false,
  ...(REDIS_URL !== '' && { store: redisStore(shared), engine: bullmqEngine(shared) }),
})
if (REDIS_URL !== '') await gateway.work()
const { url } = await gateway.listen({ port: 0 })
process.once('disconnect', () => process.exit())
process.send?.(url)
