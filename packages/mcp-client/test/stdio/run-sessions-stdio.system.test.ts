import { AsyncLocalStorage } from 'node:async_hooks'
import { setImmediate } from 'node:timers/promises'
import { everythingStdioCommand } from '@x/internal/testing'
import { seededRandom } from '@x/mcp-testing'
import { describe, expect, test } from 'vitest'
import { McpClientError, runInSessionScope } from '../../src/index.ts'
import type { McpClient } from '../../src/index.ts'
import type { CommandConfig } from '../../src/server-config.ts'
import { rejectionOf, textOf } from '../setting.ts'
import { isRunning, misbehaving, patientClient } from './misbehaving.ts'

/** The same server, which writes its process id to standard error. */
function telling({ command, args = [] }: CommandConfig): CommandConfig {
  const tell = '--import=data:text/javascript,process.stderr.write(`pid ${process.pid}\\n`)'
  return { command, args: [tell, ...args] }
}

const everything = telling(everythingStdioCommand())

/** Ids of the processes that a client has started, in order. */
function processesOf(client: McpClient): readonly number[] {
  const pids: number[] = []
  client.on('log', ({ message }) => {
    const [, pid] = /\bpid (\d+)/.exec(message) ?? []
    if (pid !== undefined) pids.push(Number(pid))
  })
  return pids
}

const echo = async (client: McpClient): Promise<string> =>
  textOf(await client.callTool('echo', { message: 'x', line: 'x' }))

/** Calls outside of any run. */
const outside = AsyncLocalStorage.snapshot()

describe('a server on stdio in runs', () => {
  test('starts one process for each run and server, and ends it with the run', async () => {
    await using client = patientClient(everything, { scope: 'run' })
    const pids = processesOf(client)
    await runInSessionScope(() => client.isClientInitialized)
    expect(pids).toEqual([]) // before the first call
    await runInSessionScope(async () => {
      await Promise.all([echo(client), echo(client), client.listTools()])
      await runInSessionScope(() => echo(client))
      await client.ping()
      expect(pids).toHaveLength(1)
      expect(isRunning(pids[0] ?? 0)).toBe(true)
      await outside(() => runInSessionScope(() => echo(client)))
      expect(pids).toHaveLength(2)
      expect(pids.map((pid) => isRunning(pid))).toEqual([true, false])
    })
    expect(pids.map((pid) => isRunning(pid))).toEqual([false, false])
  })

  test('rejects calls in flight with the reason of an abort, and ends the process', async () => {
    await using client = patientClient(telling(misbehaving()), { scope: 'run' })
    const pids = processesOf(client)
    const controller = new AbortController()
    const hangs = new Promise<void>((resolve) => {
      client.on('log', ({ message }) => {
        if (message.includes('hanging')) resolve()
      })
    })
    const run = runInSessionScope(() => client.callTool('hang'), { signal: controller.signal })
    const failed = rejectionOf(run)
    await hangs
    controller.abort(new Error('the user has left'))
    expect(await failed).toBe(controller.signal.reason)
    expect(pids.map((pid) => isRunning(pid))).toEqual([false])
  })

  test('replaces a process that exits during the run, and emits sessionReplaced', async () => {
    await using client = patientClient(telling(misbehaving()), { scope: 'run' })
    const pids = processesOf(client)
    const replaced: unknown[] = []
    client.on('sessionReplaced', (event, scope) => replaced.push([event.reason, scope?.run]))
    const id = 'run_0123456789abcdef'
    await runInSessionScope(
      async () => {
        await echo(client)
        expect(await rejectionOf(client.callTool('crash'))).toMatchObject({
          code: 'OUTCOME_UNKNOWN',
        })
        await echo(client)
      },
      { id },
    )
    expect(replaced).toEqual([[expect.stringContaining('exit code 7'), id]])
    expect(pids.map((pid) => isRunning(pid))).toEqual([false, false])
  })

  test('ends the process at an interrupt with a log message, because no process can continue it', async () => {
    await using client = patientClient(telling(misbehaving()), { scope: 'run' })
    const pids = processesOf(client)
    const warnings: string[] = []
    client.on('log', ({ level, message }) => {
      if (level === 'warning') warnings.push(message)
    })
    await runInSessionScope(async () => {
      await echo(client)
      return { __interrupt__: [{ value: 'Really?' }] }
    })
    expect(warnings).toEqual([expect.stringContaining('nobody can continue the session')])
    expect(pids.map((pid) => isRunning(pid))).toEqual([false])
  })

  test('leaves no process of a run that ends while the process starts, 20 times', async () => {
    await using client = patientClient(telling(misbehaving()), { scope: 'run' })
    const pids = processesOf(client)
    const outcomes = new Set<unknown>()
    for (let seed = 1; seed <= 20; seed++) {
      const random = seededRandom(seed)
      let call: Promise<unknown> | undefined
      await runInSessionScope(async () => {
        call = client.callTool('pid').then(
          () => 'answered',
          (error: unknown) => (McpClientError.is(error) ? error.code : error),
        )
        for (let turns = Math.floor(random() * 400); turns > 0; turns--) await setImmediate()
      })
      outcomes.add(await call)
      expect(pids.filter((one) => isRunning(one))).toEqual([])
    }
    outcomes.delete('answered')
    expect([...outcomes]).toEqual(['CLOSED'])
  })
})
