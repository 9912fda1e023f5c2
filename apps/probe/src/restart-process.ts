// A gateway of the probes of restarts. Its store is on disk. It tells its port, and ends with its parent.
import { appendFileSync } from 'node:fs'
import { join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import { AIMessage } from '@langchain/core/messages'
import { interrupt, MemorySaver, MessagesAnnotation, StateGraph } from '@langchain/langgraph'
import { SqliteSaver } from '@x/internal/testing/langgraph'
import { bearerAuth, createGateway, DiskGatewayStore } from '@x/mcp-gateway'
import { TOKENS } from './target.ts'

export interface RestartSpec {
  /** Folder of the store, of the threads, and of the file `effects`. */
  readonly folder: string
  /** `false`: the threads are in memory, as a deployment may have it by mistake. */
  readonly keepsThreads: boolean
}

const { folder, keepsThreads }: RestartSpec = JSON.parse(process.argv[2] ?? '{}')
const checkpointer = keepsThreads ? new SqliteSaver(join(folder, 'threads.db')) : new MemorySaver()

type State = typeof MessagesAnnotation.State
const textOf = ({ messages }: State): string =>
  messages.find((each) => each.type === 'human')?.text ?? ''
/** The side effect that must happen once. */
const effect = (state: State): object => {
  appendFileSync(join(folder, 'effects'), `${textOf(state)}\n`)
  return {}
}
const say = (text: string) => ({ messages: [new AIMessage(text)] })

const chain = (second: (state: State) => object | Promise<object>) =>
  new StateGraph(MessagesAnnotation)
    .addNode('effect', effect)
    .addNode('second', second)
    .addEdge('__start__', 'effect')
    .addEdge('effect', 'second')

const asking = (): object => say(`done with ${JSON.stringify(interrupt('Really?'))}`)
const inner = chain(asking).compile()
const graphs = {
  ask: chain(asking).compile({ checkpointer }),
  stop: chain(() => say('done')).compile({ checkpointer, interruptBefore: ['second'] }),
  nest: new StateGraph(MessagesAnnotation)
    .addNode('inner', inner)
    .addEdge('__start__', 'inner')
    .compile({ checkpointer }),
  slow: chain(() => sleep(600_000, {})).compile({ checkpointer }),
  slowly: chain(() => sleep(600_000, {})).compile({ checkpointer }),
  echo: new StateGraph(MessagesAnnotation)
    .addNode('say', (state) => say(textOf(state)))
    .addEdge('__start__', 'say')
    .compile(),
}

const gateway = createGateway({
  agents: Object.fromEntries(
    Object.entries(graphs).map(([name, graph]) => [name, { graph, description: name }]),
  ),
  auth: bearerAuth({ ada: { token: TOKENS.ada, scopes: ['*'] } }),
  store: new DiskGatewayStore(join(folder, 'store')),
  stateKey: 'the same before and after, and long enough',
  requestsPerMinute: 0,
  tools: { overrides: { slowly: { tasks: 'always' }, slow: { tasks: 'never' } } },
  log: false,
})
const { port } = await gateway.listen({ port: 0 })
process.on('disconnect', () => process.exit())
process.send?.({ port })
