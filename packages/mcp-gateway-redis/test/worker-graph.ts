// A graph for langgraph.json. Its nodes are counted in a folder, and wait there for files.
import { appendFileSync, existsSync } from 'node:fs'
import { join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import { AIMessage } from '@langchain/core/messages'
import { MessagesAnnotation, StateGraph } from '@langchain/langgraph'
import { SqliteSaver } from '@x/internal/testing/langgraph'

/** Counts an execution of a node, and waits for the file `go-<node>` if there is a file `wait-<node>`. */
export async function countNode(folder: string, name: string, message: string): Promise<void> {
  appendFileSync(join(folder, 'nodes'), `${name} ${message} ${process.pid}\n`)
  while (existsSync(join(folder, `wait-${name}`)) && !existsSync(join(folder, `go-${name}`))) {
    // Not a wait for a time: the file may also come from a process that cannot send a signal.
    await sleep(20)
  }
}

export function makeGraph(): object {
  const folder = process.env['FOLDER'] ?? ''
  const step = (name: string) => async () => {
    await countNode(folder, name, 'A')
    return { messages: [new AIMessage(`after ${name}`)] }
  }
  return new StateGraph(MessagesAnnotation)
    .addNode('first', step('first'))
    .addNode('second', step('second'))
    .addNode('third', step('third'))
    .addEdge('__start__', 'first')
    .addEdge('first', 'second')
    .addEdge('second', 'third')
    .compile({ checkpointer: new SqliteSaver(join(folder, 'checkpoints.db')) })
}
