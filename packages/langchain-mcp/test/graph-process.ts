import { fork } from 'node:child_process'
import { once } from 'node:events'
import { fileURLToPath } from 'node:url'
import { sourceNode } from '@x/internal/testing'
import type { Order, Told } from './asking-process.ts'

/** A graph in a process of its own. */
export interface GraphProcess extends AsyncDisposable {
  ask(order: Order): Promise<Told>
  /** Does not wait for an answer. */
  tell(order: Order): void
  kill(): Promise<void>
}

/** Starts a graph whose thread outlives its process. */
export async function startGraph(
  url: string,
  folder: string,
  { store = true }: { readonly store?: boolean } = {},
): Promise<GraphProcess> {
  const child = fork(fileURLToPath(new URL('asking-process.ts', import.meta.url)), {
    execPath: sourceNode,
    execArgv: ['--conditions=mcp-source'],
    env: { ...process.env, SERVER_URL: url, DATA_FOLDER: folder, WITH_STORE: store ? 'yes' : '' },
  })
  const exited = once(child, 'exit')
  const kill = async (): Promise<void> => {
    child.kill('SIGKILL')
    await exited
  }
  const next = async (): Promise<unknown> => {
    const [said] = await Promise.race([once(child, 'message'), exited])
    return said
  }
  if ((await next()) !== 'ready') throw new Error('The process of the graph did not start')
  return {
    async ask(order) {
      const told = next()
      child.send(order)
      return (await told) as Told
    },
    tell: (order) => void child.send(order),
    kill,
    [Symbol.asyncDispose]: kill,
  }
}
