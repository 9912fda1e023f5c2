// A process beside the agents: the debug-state service, or one replica of the gateway.
import { START, StateGraph } from '@langchain/langgraph'
import { SqliteDebugStateStore, createDebugStateServer } from '@x/agents-debugstate/server'
import { bearerAuth, createGateway } from '@x/mcp-gateway'
import { redisStore } from '@x/mcp-gateway-redis'
import { z } from 'zod'

/** A service process, on a port that stays the same when it is started again. */
export type ServiceSpec =
  | { readonly type: 'debug-state'; readonly port: number; readonly file: string }
  | {
      readonly type: 'gateway'
      readonly port: number
      readonly redisUrl: string
      readonly principals: readonly string[]
    }

/** Message of a replica of the gateway, sent when its tool starts. */
export interface Execution {
  readonly key: string
  readonly principal: string
}

const Caller = z.object({ id: z.string() })

type Gateway = Extract<ServiceSpec, { type: 'gateway' }>

async function serveGateway({ port, redisUrl, principals }: Gateway): Promise<void> {
  const State = z.object({ key: z.string(), principal: z.string().optional() })
  const graph = new StateGraph({ state: State, input: State.pick({ key: true }) })
    .addNode('pay', async ({ key }, { configurable }) => {
      const { id: principal } = Caller.parse(configurable?.['principal'])
      await recordExecution({ key, principal })
      return { principal }
    })
    .addEdge(START, 'pay')
    .compile()
  const gateway = createGateway({
    agents: {
      pay: {
        graph,
        description: 'Pays once',
        output: ({ key, principal }) => JSON.stringify({ key, principal }),
      },
    },
    auth: bearerAuth(
      Object.fromEntries(principals.map((name) => [name, { token: name, scopes: ['*'] }])),
    ),
    store: redisStore({ url: redisUrl }),
    sessions: { max: 10_000 },
    runs: { maxConcurrent: 1000, maxConcurrentPerPrincipal: 1000 },
    requestsPerMinute: 0,
    stateKey: 'the same in all replicas, and long enough',
    log: false,
  })
  await gateway.listen({ port })
}

/** Resolves when the driver will get the message even if this process is killed. */
function recordExecution(execution: Execution): Promise<void> {
  return new Promise((resolve) => process.send?.(execution, () => resolve()))
}

async function serveDebugState(port: number, file: string): Promise<void> {
  await createDebugStateServer({ store: new SqliteDebugStateStore(file) }).listen({ port })
}

const spec: ServiceSpec = JSON.parse(process.argv[2] ?? '{}')
process.on('disconnect', () => process.exit())
if (spec.type === 'gateway') await serveGateway(spec)
else await serveDebugState(spec.port, spec.file)
process.send?.({ type: 'ready' })
