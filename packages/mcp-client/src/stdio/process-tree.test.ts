import type { ChildProcess } from 'node:child_process'
import { deferred } from '@x/mcp-testing'
import { describe, expect, test } from 'vitest'
import { endTree, endWithProcess } from './process-tree.ts'
import { thisSystem } from './start-child.ts'
import type { ChildSystem } from './start-child.ts'

/** A child that ends when one of these events happens. */
function childThatEndsOn(...causes: readonly string[]): {
  readonly child: ChildProcess
  readonly exited: Promise<void>
  readonly happens: (what: string) => void
  readonly events: readonly string[]
} {
  const exited = deferred()
  const events: string[] = []
  const child = {
    pid: 42,
    exitCode: null as number | null,
    signalCode: null,
    stdin: { end: () => happens('stdin ended') },
    stdio: [],
  }
  const happens = (what: string): void => {
    events.push(what)
    if (!causes.includes(what)) return
    child.exitCode = 0
    exited.resolve()
  }
  return { child: child as unknown as ChildProcess, exited: exited.promise, happens, events }
}

function windows(happens: (what: string) => void): ChildSystem {
  return {
    ...thisSystem,
    platform: 'win32',
    environment: { SYSTEMROOT: 'D:\\Windows' },
    run: (file, args) => happens([file, ...args].join(' ')),
    runBeforeExit: (file, args) => happens(['before exit', file, ...args].join(' ')),
    kill: () => {
      throw new Error('Windows has no signals')
    },
  }
}

const TASKKILL = 'D:\\Windows\\System32\\taskkill.exe /pid 42 /T /F'

describe('on Windows', () => {
  test('does not signal a child that exits when its input ends', async () => {
    const { child, exited, happens, events } = childThatEndsOn('stdin ended')
    await endTree({ child, exited, system: windows(happens) })
    expect(events).toEqual(['stdin ended'])
  })

  test('ends any other child by force, with its tree', async () => {
    const { child, exited, happens, events } = childThatEndsOn(TASKKILL)
    await endTree({ child, exited, graceMs: 1, system: windows(happens) })
    expect(events).toEqual(['stdin ended', TASKKILL])
  })

  test('does not wait for a child that cannot be ended', async () => {
    const { child, exited, happens, events } = childThatEndsOn()
    await endTree({ child, exited, graceMs: 1, system: windows(happens) })
    expect(events).toEqual(['stdin ended', TASKKILL, TASKKILL])
  })

  test('ends the servers before this process exits', () => {
    const { child, happens, events } = childThatEndsOn()
    const before = new Set(process.listeners('exit'))
    const undo = endWithProcess(child, windows(happens))
    const added = process.listeners('exit').filter((listener) => !before.has(listener))
    expect(added).toHaveLength(1)
    for (const listener of added) listener.call(process, 0)
    expect(events).toEqual([`before exit ${TASKKILL}`])
    undo()
    expect(process.listeners('exit').filter((listener) => !before.has(listener))).toEqual([])
  })
})

describe('on other systems', () => {
  const posix = (kill: ChildSystem['kill']): ChildSystem => ({
    ...thisSystem,
    platform: 'linux',
    kill,
  })

  test('sends SIGTERM, then SIGKILL to the process group, and waits for it', async () => {
    const { child, exited, happens, events } = childThatEndsOn('SIGTERM -42')
    let isGroupThere = true
    const kill = (pid: number, signal: NodeJS.Signals | 0): boolean => {
      if (signal !== 0) happens(`${signal} ${pid}`)
      if (signal === 'SIGKILL') isGroupThere = false
      if (!isGroupThere) throw Object.assign(new Error('no such process'), { code: 'ESRCH' })
      return true
    }
    await endTree({ child, exited, graceMs: 1, system: posix(kill) })
    expect(events).toEqual(['stdin ended', 'SIGTERM -42', 'SIGKILL -42'])
  })

  test('leaves a process that must not be signalled', async () => {
    const { child, exited, happens, events } = childThatEndsOn('stdin ended')
    const kill = (): never => {
      throw Object.assign(new Error('not permitted'), { code: 'EPERM' })
    }
    await endTree({ child, exited, graceMs: 1, system: posix(kill) })
    happens('left')
    expect(events).toEqual(['stdin ended', 'left'])
  })
})
