import { setTimeout as sleep } from 'node:timers/promises'
import { AIMessage } from '@langchain/core/messages'
import { END, MessagesAnnotation, START, StateGraph } from '@langchain/langgraph'
import { PostgresSaver } from '@langchain/langgraph-checkpoint-postgres'

/** Checkpoints that all processes share. Its tables are made by `setup.ts`. */
export const checkpointer: PostgresSaver = PostgresSaver.fromConnString(
  process.env['DATABASE_URL'] ?? '',
)

const STEP_MS = Number(process.env['STEP_MS'] ?? 10_000)

/** If a worker dies within a step, the next one runs this step again, and no earlier one. */
function step(name: string) {
  return async () => {
    process.stdout.write(`${name} begins in process ${process.pid}\n`)
    await sleep(STEP_MS)
    return { messages: [new AIMessage(`${name} is done`)] }
  }
}

/** A long call without a model, so that the example needs no key. */
export const report = new StateGraph(MessagesAnnotation)
  .addNode('research', step('research'))
  .addNode('write', step('write'))
  .addEdge(START, 'research')
  .addEdge('research', 'write')
  .addEdge('write', END)
  .compile({ checkpointer })

/** A short one. */
export const orders = new StateGraph(MessagesAnnotation)
  .addNode('answer', ({ messages }) => {
    return { messages: [new AIMessage(`You asked: ${messages.at(-1)?.text}`)] }
  })
  .addEdge(START, 'answer')
  .addEdge('answer', END)
  .compile()
