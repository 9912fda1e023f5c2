import { describe, expect, test } from 'vitest'
import { thisSystem, windowsProgram } from './child-system.ts'
import type { ChildSystem } from './child-system.ts'
import { LoginShellPath } from './login-shell-path.ts'
import { environmentOf, startChild } from './start-child.ts'
import type { PrepareOptions } from './start-child.ts'

type Started = Parameters<ChildSystem['start']>

/** A system with these files, where starting something only tells what would be started. */
function systemWith(
  given: Partial<ChildSystem>,
  ...files: readonly string[]
): ChildSystem & { readonly started: readonly Started[] } {
  const started: Started[] = []
  return {
    ...thisSystem,
    isExecutable: (file) => files.includes(file),
    start: (...all) => {
      started.push(all)
      return undefined as unknown as ReturnType<ChildSystem['start']>
    },
    ...given,
    started,
  }
}

const linux = { platform: 'linux', environment: { PATH: '/process' } } as const
const windows = {
  platform: 'win32',
  environment: { Path: 'C:\\nodejs', SystemRoot: 'D:\\Windows', PathExt: '.EXE;.CMD' },
} as const

interface Given extends Partial<PrepareOptions> {
  readonly command?: string
  readonly args?: readonly string[]
  readonly env?: Readonly<Record<string, string>>
}

function prepared({ command = 'npx', args = [], env = {}, ...rest }: Given): PrepareOptions {
  const server = { command, args, env, cwd: undefined }
  return { server, secrets: {}, stdio: {}, cwd: '/srv', log: () => {}, ...rest }
}

/** A login shell that is counted. */
function shell(...paths: readonly string[]): LoginShellPath & { asked: number } {
  const path = new LoginShellPath(async () => {
    const next = paths[counted.asked++]
    if (next === undefined) throw new Error('The login shell gave no PATH')
    return next
  })
  const counted = Object.assign(path, { asked: 0 })
  return counted
}

describe('PATH', () => {
  const pathOf = async (given: Given): Promise<string | undefined> =>
    (await environmentOf(prepared(given)))['PATH']
  const fromShell = { pathFrom: 'login-shell' } as const

  test('is that of this process', async () => {
    expect(await pathOf({ system: systemWith(linux) })).toBe('/process')
  })

  test('of the config goes before one of the options, and that before the one of this process', async () => {
    const system = systemWith(linux)
    const stdio = { path: '/options' }
    expect(await pathOf({ system, stdio })).toBe('/options')
    expect(await pathOf({ system, stdio, env: { PATH: '/config' } })).toBe('/config')
  })

  test('of the login shell is asked for only where it is wanted and needed', async () => {
    const shellPath = shell('/shell')
    const here = { system: systemWith(linux, '/process/npx'), shellPath }
    const elsewhere = { system: systemWith(linux, '/shell/npx'), shellPath }
    expect(await pathOf({ ...elsewhere })).toBe('/process')
    expect(await pathOf({ ...here, stdio: fromShell })).toBe('/process')
    expect(await pathOf({ ...elsewhere, stdio: fromShell, env: { PATH: '/config' } })).toBe(
      '/config',
    )
    expect(await pathOf({ ...elsewhere, stdio: { ...fromShell, path: '/options' } })).toBe(
      '/options',
    )
    expect(shellPath.asked).toBe(0)
    expect(await pathOf({ ...elsewhere, stdio: fromShell })).toBe('/shell')
  })

  test('of the login shell is kept, and asked for again when a command is not in it', async () => {
    const shellPath = shell('/old', '/new')
    const system = systemWith(linux, '/old/npx', '/new/uvx')
    const given = { system, shellPath, stdio: fromShell }
    expect(await pathOf(given)).toBe('/old')
    expect(await pathOf(given)).toBe('/old')
    expect(shellPath.asked).toBe(1)
    expect(await pathOf({ ...given, command: 'uvx' })).toBe('/new')
    expect(shellPath.asked).toBe(2)
  })

  test('of a login shell that fails is that of this process, and it is told', async () => {
    const logged: string[] = []
    const given = { stdio: fromShell, shellPath: shell(), log: (text: string) => logged.push(text) }
    expect(await pathOf({ ...given, system: systemWith(linux) })).toBe('/process')
    expect(logged).toEqual([
      'The login shell gave no PATH: the command is looked for in the PATH of this process',
    ])
  })

  test('on Windows is that of this process: there is no login shell', async () => {
    const shellPath = shell('/shell')
    const system = systemWith(windows)
    expect(await pathOf({ system, stdio: fromShell, shellPath })).toBe('C:\\nodejs')
    expect(shellPath.asked).toBe(0)
  })
})

describe('what is started', () => {
  const startedBy = async (given: Given, system: ReturnType<typeof systemWith>) => {
    const options = prepared({ ...given, system })
    startChild(options, await environmentOf(options))
    return system.started[0]
  }

  test('is the command as it was given, as the leader of a process group', async () => {
    expect(await startedBy({ command: 'npx' }, systemWith(linux))).toEqual([
      'npx',
      [],
      expect.objectContaining({ cwd: '/srv', detached: true, env: { PATH: '/process' } }),
    ])
  })

  test('on Windows is what PATH and PATHEXT say, whatever their case', async () => {
    const system = systemWith(windows, 'C:\\nodejs\\node.exe')
    expect(await startedBy({ command: 'node', args: ['a b'] }, system)).toEqual([
      'C:\\nodejs\\node.exe',
      ['a b'],
      expect.objectContaining({
        detached: false,
        windowsHide: true,
        windowsVerbatimArguments: false,
      }),
    ])
  })

  test('on Windows is cmd.exe by its full path for a shim, and never one of the current folder', async () => {
    const system = systemWith(windows, 'C:\\nodejs\\npx.cmd')
    expect(await startedBy({ command: 'npx', args: ['-y'] }, system)).toEqual([
      'D:\\Windows\\System32\\cmd.exe',
      ['/d', '/s', '/c', '"C:\\nodejs\\npx.cmd ^^^"-y^^^""'],
      expect.objectContaining({ windowsVerbatimArguments: true }),
    ])
  })

  test('on Windows env of another case takes the place of what is inherited', async () => {
    const system = systemWith(windows, 'E:\\own\\npx.cmd')
    const env = { path: 'E:\\own', comspec: 'E:\\own\\cmd.exe' }
    const [file, , options] = (await startedBy({ env }, system)) ?? []
    expect(file).toBe('E:\\own\\cmd.exe')
    expect(Object.keys(options?.env ?? {}).filter((name) => /^path$/i.test(name))).toEqual(['path'])
  })

  test('on Windows is nothing where there is no such program', async () => {
    await expect(startedBy({ command: 'npx' }, systemWith(windows))).rejects.toMatchObject({
      code: 'UNREACHABLE',
      message: 'its command was not found (ENOENT)',
    })
  })

  test('an argument that a batch file cannot be given is said, and not repeated', async () => {
    const system = systemWith(windows, 'C:\\nodejs\\npx.cmd')
    const error: unknown = await startedBy({ args: ['secret\nrm'] }, system).catch(
      (e: unknown) => e,
    )
    expect(error).toMatchObject({ code: 'UNREACHABLE' })
    expect(String(error)).toContain('line break')
    expect(String(error)).not.toContain('secret')
  })
})

test('programs of Windows have a full path, also where nothing says where Windows is', () => {
  expect(windowsProgram('taskkill.exe', { environment: {} })).toBe(
    'C:\\Windows\\System32\\taskkill.exe',
  )
})
