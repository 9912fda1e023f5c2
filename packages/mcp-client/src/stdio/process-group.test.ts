import { spawn } from 'node:child_process'
import type { ChildProcess, SpawnOptions } from 'node:child_process'
import { subscribe, unsubscribe } from 'node:diagnostics_channel'
import { EventEmitter } from 'node:events'
import { afterEach, describe, expect, test, vi } from 'vitest'
import { endGroup, endWithProcess, startInGroup, system } from './process-group.ts'

afterEach(() => void vi.restoreAllMocks())

/** A child that exits when one of these events happens. */
function childThatExitsOn(...causes: readonly string[]): {
  readonly child: ChildProcess
  readonly close: () => Promise<void>
  readonly happens: (what: string) => void
  readonly events: readonly string[]
} {
  const events: string[] = []
  const child = Object.assign(new EventEmitter(), {
    pid: 42,
    exitCode: null as number | null,
    signalCode: null,
    stdio: [],
  })
  const happens = (what: string): void => {
    events.push(what)
    if (!causes.includes(what) || child.exitCode !== null) return
    child.exitCode = 0
    child.emit('exit')
  }
  const close = async (): Promise<void> => happens('closed')
  return { child: child as unknown as ChildProcess, close, happens, events }
}

describe('on Windows', () => {
  const TASKKILL = 'D:\\Windows\\System32\\taskkill.exe /pid 42 /T /F'

  function onWindows(happens: (what: string) => void): void {
    vi.stubEnv('SYSTEMROOT', 'D:\\Windows')
    vi.spyOn(system, 'platform', 'get').mockReturnValue('win32')
    vi.spyOn(system, 'kill').mockImplementation(() => {
      throw new Error('Windows has no groups')
    })
    vi.spyOn(system, 'run').mockImplementation((file, args, isExiting) =>
      happens([file, ...args, ...(isExiting ? ['before exit'] : [])].join(' ')),
    )
  }

  test('a child gets neither a window nor a group', () => {
    onWindows(() => {})
    const given: SpawnOptions[] = []
    const record = (message: unknown): void => {
      const { process: child } = message as {
        process: { spawn: (options: SpawnOptions) => number }
      }
      child.spawn = (options) => {
        given.push(options)
        return 0
      }
    }
    subscribe('child_process', record)
    try {
      // The options that the SDK 1.21 gives outside of Electron.
      startInGroup(() => spawn('node', ['server.js'], { windowsHide: false }))
    } finally {
      unsubscribe('child_process', record)
    }
    expect(given).toMatchObject([{ detached: false, windowsHide: true }])
  })

  test('a child that exits with its input is not signalled', async () => {
    const { child, close, happens, events } = childThatExitsOn('closed')
    onWindows(happens)
    await endGroup(child, close)
    expect(events).toEqual(['closed'])
  })

  test('any other child is ended by force, with its tree', async () => {
    vi.useFakeTimers({ toFake: ['setTimeout', 'clearTimeout'] })
    const { child, close, happens, events } = childThatExitsOn(TASKKILL)
    onWindows(happens)
    const ended = endGroup(child, close)
    await vi.advanceTimersByTimeAsync(1500)
    vi.useRealTimers()
    await ended
    expect(events).toEqual(['closed', TASKKILL])
  })

  test('servers are ended before this process exits', () => {
    const { child, happens, events } = childThatExitsOn()
    onWindows(happens)
    const before = new Set(process.listeners('exit'))
    const undo = endWithProcess(child)
    const added = process.listeners('exit').filter((listener) => !before.has(listener))
    expect(added).toHaveLength(1)
    for (const listener of added) listener.call(process, 0)
    expect(events).toEqual([`${TASKKILL} before exit`])
    undo()
    expect(process.listeners('exit').filter((listener) => !before.has(listener))).toEqual([])
  })
})

describe('on other systems', () => {
  test('the rest of the group gets SIGTERM, then SIGKILL, after the child has exited', async () => {
    vi.useFakeTimers({ toFake: ['setTimeout', 'clearTimeout', 'performance'] })
    const { child, close, happens, events } = childThatExitsOn('closed')
    let isGroupThere = true
    vi.spyOn(system, 'kill').mockImplementation((pid, signal) => {
      if (signal !== 0) happens(`${signal} ${pid}`)
      if (signal === 'SIGKILL') isGroupThere = false
      if (!isGroupThere) throw Object.assign(new Error('no such process'), { code: 'ESRCH' })
      return true
    })
    const ended = endGroup(child, close)
    await vi.advanceTimersByTimeAsync(2000)
    vi.useRealTimers()
    await ended
    expect(events).toEqual(['closed', 'SIGTERM -42', 'SIGKILL -42'])
  })

  test('a process that must not be signalled is left', async () => {
    const { child, close, events } = childThatExitsOn('closed')
    vi.spyOn(system, 'kill').mockImplementation(() => {
      throw Object.assign(new Error('not permitted'), { code: 'EPERM' })
    })
    await endGroup(child, close)
    expect(events).toEqual(['closed'])
  })
})
