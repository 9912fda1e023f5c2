import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { createInterface } from 'node:readline'
import { fileURLToPath } from 'node:url'
import { sourceNode } from '@x/internal/testing'

/** A running `client-process.ts`. */
export interface ClientProcess extends AsyncDisposable {
  /** Sends a command of `client-process.ts`, and returns its answer. */
  ask(command: string): Promise<unknown>
  /** SIGKILL: nothing is closed. */
  kill(): Promise<void>
  /** Closes its input and waits for its exit. @throws if it fails */
  end(): Promise<void>
}

export async function startClientProcess(url: string, file: string): Promise<ClientProcess> {
  const script = fileURLToPath(new URL('client-process.ts', import.meta.url))
  const child = spawn(sourceNode, ['--conditions=mcp-source', script, url, file], {
    stdio: ['pipe', 'pipe', 'inherit'],
  })
  const exit = once(child, 'exit')
  const lines = createInterface({ input: child.stdout })[Symbol.asyncIterator]()
  const kill = async (): Promise<void> => {
    child.kill('SIGKILL')
    await exit
  }
  return {
    async ask(command) {
      child.stdin.write(`${command.replaceAll('\u2028', '\\u2028')}\n`) // it ends a line for `readline`
      const line = await lines.next()
      if (line.done === true) throw new Error('The client process has ended')
      return JSON.parse(line.value)
    },
    kill,
    async end() {
      child.stdin.end()
      const [code, signal] = await exit
      if (code !== 0) throw new Error(`The client process ended with ${code ?? signal}`)
    },
    [Symbol.asyncDispose]: kill,
  }
}
