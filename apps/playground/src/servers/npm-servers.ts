import { createRequire } from 'node:module'
import { dirname, join } from 'node:path'
import { startEverythingServer } from '@x/internal/testing'

const require = createRequire(import.meta.url)

/** `@modelcontextprotocol/server-everything` over Streamable HTTP, in a process of its own. */
export interface EverythingServer extends AsyncDisposable {
  readonly url: string
  /** Kills the process and starts another one on the same port, without the sessions. */
  restart(): Promise<void>
}

/** @throws if it does not start in 20 seconds; the error has its output */
export async function startEverything(): Promise<EverythingServer> {
  let server = await startEverythingServer()
  const { url } = server
  let restarting: Promise<void> | undefined
  const restart = async (): Promise<void> => {
    await server[Symbol.asyncDispose]()
    server = await startEverythingServer({ port: Number(new URL(url).port) })
  }
  return {
    url,
    restart() {
      restarting ??= restart().finally(() => (restarting = undefined))
      return restarting
    },
    async [Symbol.asyncDispose]() {
      await restarting?.catch(() => undefined)
      await server[Symbol.asyncDispose]()
    },
  }
}

/** Command of `@modelcontextprotocol/server-memory` on stdio. It keeps what it learns in `folder`. */
export function memoryServer(folder: string): {
  readonly command: string
  readonly args: string[]
  readonly env: Record<string, string>
} {
  const manifest = require.resolve('@modelcontextprotocol/server-memory/package.json')
  return {
    command: process.execPath,
    args: [join(dirname(manifest), 'dist', 'index.js')],
    env: { MEMORY_FILE_PATH: join(folder, 'memory.jsonl') },
  }
}
