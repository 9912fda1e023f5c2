// The unmodified clients of SDK v1 and v2 on this transport: sessions survive a loss and the end of the process.
import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { createInterface } from 'node:readline'
import { fileURLToPath } from 'node:url'
import { temporaryFolder } from '@x/internal/testing'
import { startModernServer, startLegacyServer } from '@x/mcp-testing'
import { describe, expect, test } from 'vitest'

const program = fileURLToPath(new URL('counting-app.ts', import.meta.url))

interface App extends AsyncDisposable {
  /** Output of the program for one call. */
  call(tool: string): Promise<unknown>
  /** Kills it with `SIGKILL`. */
  kill(): Promise<void>
  /** Lets the process end by itself. Resolves with its exit code. */
  end(): Promise<unknown>
}

function startApp(...args: readonly string[]): App {
  const child = spawn(
    process.execPath,
    ['--conditions=mcp-source', '--no-warnings', program, ...args],
    { stdio: ['pipe', 'pipe', 'inherit'] },
  )
  const exited = once(child, 'exit')
  const lines = createInterface(child.stdout)[Symbol.asyncIterator]()
  const kill = async (): Promise<void> => {
    child.kill('SIGKILL')
    await exited
  }
  return {
    async call(tool) {
      child.stdin.write(`${tool}\n`)
      const { value } = await lines.next()
      return JSON.parse(String(value))
    },
    kill,
    async end() {
      child.stdin.end()
      const [code] = (await exited) as [unknown]
      return code
    },
    [Symbol.asyncDispose]: kill,
  }
}

describe.each(['v1', 'v2'])('the client of SDK %s', (sdk) => {
  test('continues after SIGKILL, and after the server has lost its session', async () => {
    await using server = await startLegacyServer()
    await using folder = await temporaryFolder()
    {
      await using first = startApp(sdk, server.url, folder.file('.mcp', 'shop.json'))
      expect(await first.call('counter_add')).toEqual({ count: 1, isResumed: false, epoch: 1 })
      expect(await first.call('counter_add')).toEqual({ count: 2, isResumed: false, epoch: 1 })
      await first.kill()
    }
    {
      await using second = startApp(sdk, server.url, folder.file('.mcp', 'shop.json'))
      expect(await second.call('counter_add')).toEqual({ count: 3, isResumed: true, epoch: 1 })
      expect(server.count('initialize')).toBe(1)
      server.forgetSessions()
      expect(await second.call('counter_add')).toEqual({ count: 1, isResumed: false, epoch: 2 })
      await second.kill()
    }
    server.forgetSessions() // while no client is connected
    await using third = startApp(sdk, server.url, folder.file('.mcp', 'shop.json'))
    expect(await third.call('counter_add')).toEqual({ count: 1, isResumed: false, epoch: 3 })
    expect(server.count('initialize')).toBe(3)
    expect(server.executions('counter_add')).toBe(5)
    expect(await third.end()).toBe(0)
  })

  test('needs no handshake with a stateless server that it has used before', async () => {
    await using server = await startModernServer()
    await using folder = await temporaryFolder()
    for (const isResumed of [false, true]) {
      await using app = startApp(sdk, server.url, folder.file('.mcp', 'shop.json'))
      expect(await app.call('progress')).toMatchObject({ isResumed, epoch: 1 })
      await app.kill()
    }
    expect(server.count('server/discover')).toBe(1)
  })
})
