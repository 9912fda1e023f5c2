import { setTimeout as sleep } from 'node:timers/promises'
import { AIMessage } from '@langchain/core/messages'
import { MessagesAnnotation, START, StateGraph } from '@langchain/langgraph'
import { PostgresSaver } from '@langchain/langgraph-checkpoint-postgres'

/** Checkpoints that all processes share. Its tables are made by `npm run setup`. */
export const checkpointer: PostgresSaver = PostgresSaver.fromConnString(
  process.env['DATABASE_URL'] ?? '',
)

/** Kill the worker within a step: the other worker runs this step again, and no earlier one. */
function step(name: string) {
  return async () => {
    process.stdout.write(`${name} begins in process ${process.pid}\n`)
    await sleep(10_000)
    return { messages: [new AIMessage(`${name} is done`)] }
  }
}

/** A graph without a model, so that the example works without a key. */
export const graph = new StateGraph(MessagesAnnotation)
  .addNode('research', step('research'))
  .addNode('write', step('write'))
  .addEdge(START, 'research')
  .addEdge('research', 'write')
  .compile({ checkpointer })
