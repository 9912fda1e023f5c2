// A process of the scenario `replicas`: a replica that accepts calls, or a worker that executes tasks. It serves two
// gateways, because calls of conversations cannot be continued by another process.
import { flushCompileCache } from 'node:module'
import { join } from 'node:path'
import { StateGraph } from '@langchain/langgraph'
import { SqliteSaver } from '@x/internal/testing/langgraph'
import { bearerAuth, createGateway } from '@x/mcp-gateway'
import type { Gateway, GatewayOptions } from '@x/mcp-gateway'
import { bullmqEngine, redisStore } from '@x/mcp-gateway-redis'
import { z } from 'zod'
import { execute, paymentAgent, watchDelay } from './payment-graph.ts'

export interface ReplicaSpec {
  readonly role: 'replica' | 'worker'
  /** Files that all processes share: checkpoints, and the log of executions. */
  readonly folder: string
  readonly redisUrl: string
  /** Ports of the two gateways of a replica. */
  readonly ports: readonly [payments: number, conversations: number]
  /** The token of each user, by name. */
  readonly users: Readonly<Record<string, string>>
}

const { role, folder, redisUrl, ports, users }: ReplicaSpec = JSON.parse(process.argv[2] ?? '{}')

/** Remembers the keys of all calls of its thread. */
function conversationGraph() {
  const Note = z.object({ key: z.string(), ms: z.number() })
  return new StateGraph({
    state: Note.extend({ keys: z.array(z.string()).optional() }),
    input: Note,
  })
    .addNode('note', async (state) => {
      await execute(folder, 'note', state)
      return { keys: [...(state.keys ?? []), state.key] }
    })
    .addEdge('__start__', 'note')
    .compile({ checkpointer: new SqliteSaver(join(folder, 'conversations.db')) })
}

/** On a busy machine, Redis may answer late. Here it is never away: a call with a key would lose how it ended. */
const STORE_MS = 60_000

/** Tells the driver that tasks of this process may go to another one: the machine, or Redis, was busy. */
function reportLate(): void {
  process.send?.({ type: 'late' })
}

function start(prefix: string, options: GatewayOptions): Gateway {
  const shared = { url: redisUrl, prefix }
  const tokens = Object.entries(users).map(([name, token]) => [name, { token, scopes: ['*'] }])
  return createGateway({
    auth: bearerAuth(Object.fromEntries(tokens)),
    store: redisStore({ ...shared, timeoutMs: STORE_MS, onWarning() {} }),
    engine: bullmqEngine({ ...shared, onWarning: reportLate }),
    stateKey: 'the same in all processes, and long enough',
    requestsPerMinute: 0,
    log: false,
    ...options,
  })
}

const pay = paymentAgent(folder, true)
const payments = start('payments', {
  agents: { pay, order: pay, ship: pay },
  tools: {
    overrides: { pay: { tasks: 'never' }, order: { tasks: 'always' }, ship: { tasks: 'pair' } },
  },
})
const conversations = start('conversations', {
  agents: {
    note: {
      graph: conversationGraph(),
      description: 'Remembers keys',
      output: ({ keys = [] }: { readonly keys?: readonly string[] | undefined }) => keys.join(' '),
    },
  },
  runs: { mode: 'thread' },
  tools: { tasks: 'never' },
})
process.on('disconnect', () => process.exit())
for (const [index, gateway] of [payments, conversations].entries()) {
  if (role === 'worker') await gateway.work()
  else await gateway.listen({ port: ports[index] ?? 0 })
}
flushCompileCache() // a killed process loses its compiled code
process.send?.({ type: 'ready' })
watchDelay(reportLate)
