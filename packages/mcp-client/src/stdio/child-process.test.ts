import type { ChildProcess } from 'node:child_process'
import { chmod, writeFile } from 'node:fs/promises'
import { deferred } from '@x/mcp-testing'
import { describe, expect, test } from 'vitest'
import { makeTemporaryFolder } from '../../test/temporary-folder.ts'
import {
  childEnvironment,
  createEnvironment,
  createSpawnPlan,
  endTree,
  endWithProcess,
  findCommand,
  LoginShellPath,
  readLoginShellPath,
  thisSystem,
  windowsProgram,
} from './child-process.ts'
import type { Launch, SpawnPlan, System } from './child-process.ts'

/** A system with these executable files. */
function systemWith(given: Partial<System>, ...files: readonly string[]): System {
  return { ...thisSystem, isExecutable: (file) => files.includes(file), ...given }
}

const linux = { platform: 'linux', environment: { PATH: '/process' } } as const
const windows = {
  platform: 'win32',
  environment: { Path: 'C:\\nodejs', SystemRoot: 'D:\\Windows', PathExt: '.EXE;.CMD' },
} as const

interface Given extends Partial<Launch> {
  readonly command?: string
  readonly args?: readonly string[]
  readonly env?: Readonly<Record<string, string>>
  readonly system?: System
  readonly shellPath?: LoginShellPath
}

function launchOf({ command = 'npx', args = [], env = {}, ...rest }: Given): Launch {
  const server = { command, args, env, cwd: undefined }
  return { server, stdio: {}, cwd: '/srv', log: () => {}, ...rest }
}

/** A login shell that counts its calls. */
function fakeShell(...paths: readonly string[]): LoginShellPath & { asked: number } {
  const path = new LoginShellPath(async () => {
    const next = paths[counted.asked++]
    if (next === undefined) throw new Error('The login shell gave no PATH')
    return next
  })
  const counted = Object.assign(path, { asked: 0 })
  return counted
}

describe('PATH of the child', () => {
  const pathOf = async (given: Given): Promise<string | undefined> =>
    (await createEnvironment(launchOf(given), given.system, given.shellPath))['PATH']
  const fromShell = { pathFrom: 'login-shell' } as const

  test('is that of this process by default', async () => {
    expect(await pathOf({ system: systemWith(linux) })).toBe('/process')
  })

  test('comes from the config, else from the options, else from this process', async () => {
    const system = systemWith(linux)
    const stdio = { path: '/options' }
    expect(await pathOf({ system, stdio })).toBe('/options')
    expect(await pathOf({ system, stdio, env: { PATH: '/config' } })).toBe('/config')
  })

  test('comes from the login shell only if the option is set and the command is missing', async () => {
    const shellPath = fakeShell('/shell')
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

  test('is read from the login shell once, and again for a command that is missing in it', async () => {
    const shellPath = fakeShell('/old', '/new')
    const system = systemWith(linux, '/old/npx', '/new/uvx')
    const given = { system, shellPath, stdio: fromShell }
    expect(await pathOf(given)).toBe('/old')
    expect(await pathOf(given)).toBe('/old')
    expect(shellPath.asked).toBe(1)
    expect(await pathOf({ ...given, command: 'uvx' })).toBe('/new')
    expect(shellPath.asked).toBe(2)
  })

  test('is that of this process if the login shell fails, with a log message', async () => {
    const logged: string[] = []
    const given = {
      stdio: fromShell,
      shellPath: fakeShell(),
      log: (text: string) => logged.push(text),
    }
    expect(await pathOf({ ...given, system: systemWith(linux) })).toBe('/process')
    expect(logged).toEqual([
      'The login shell gave no PATH: the command is searched in the PATH of this process',
    ])
  })

  test('is that of this process on Windows, which has no login shell', async () => {
    const shellPath = fakeShell('/shell')
    const system = systemWith(windows)
    expect(await pathOf({ system, stdio: fromShell, shellPath })).toBe('C:\\nodejs')
    expect(shellPath.asked).toBe(0)
  })
})

describe('createSpawnPlan', () => {
  const planOf = async (given: Given, system: System): Promise<SpawnPlan> => {
    const launch = launchOf(given)
    return createSpawnPlan(launch, await createEnvironment(launch, system), system)
  }

  test('starts the command as given, as the leader of a process group', async () => {
    expect(await planOf({ command: 'npx' }, systemWith(linux))).toEqual({
      file: 'npx',
      args: [],
      options: expect.objectContaining({ cwd: '/srv', detached: true, env: { PATH: '/process' } }),
    })
  })

  test('finds a program on Windows by PATH and PATHEXT in any case', async () => {
    const system = systemWith(windows, 'C:\\nodejs\\node.exe')
    expect(await planOf({ command: 'node', args: ['a b'] }, system)).toEqual({
      file: 'C:\\nodejs\\node.exe',
      args: ['a b'],
      options: expect.objectContaining({ detached: false, windowsHide: true }),
    })
  })

  test('starts cmd.exe by its full path for a batch file on Windows', async () => {
    const system = systemWith(windows, 'C:\\nodejs\\npx.cmd')
    expect(await planOf({ command: 'npx', args: ['-y'] }, system)).toEqual({
      file: 'D:\\Windows\\System32\\cmd.exe',
      args: ['/d', '/s', '/c', '"C:\\nodejs\\npx.cmd ^^^"-y^^^""'],
      options: expect.objectContaining({ windowsVerbatimArguments: true }),
    })
  })

  test('replaces inherited variables of another case on Windows', async () => {
    const system = systemWith(windows, 'E:\\own\\npx.cmd')
    const env = { path: 'E:\\own', comspec: 'E:\\own\\cmd.exe' }
    const { file, options } = await planOf({ env }, system)
    expect(file).toBe('E:\\own\\cmd.exe')
    expect(Object.keys(options.env ?? {}).filter((name) => /^path$/i.test(name))).toEqual(['path'])
  })

  test('rejects a command that does not exist on Windows', async () => {
    await expect(planOf({ command: 'npx' }, systemWith(windows))).rejects.toMatchObject({
      code: 'UNREACHABLE',
      message: 'its command was not found (ENOENT): install it, or give its full path',
    })
  })

  test('rejects an argument with a line break for a batch file, without showing it', async () => {
    const system = systemWith(windows, 'C:\\nodejs\\npx.cmd')
    for (const arg of ['secret\nrm', 'secret\r\ncalc.exe']) {
      const error: unknown = await planOf({ args: [arg] }, system).catch((e: unknown) => e)
      expect(error).toMatchObject({ code: 'UNREACHABLE' })
      expect(String(error)).toContain('line break')
      expect(String(error)).not.toContain('secret')
    }
  })

  test.each([
    ['/usr/bin/npx', linux],
    ['/srv/run.cmd', linux],
    ['C:\\nodejs\\node.exe', windows],
  ])('starts %s without cmd.exe', async (command, system) => {
    const args = ['a b', '%PATH%', '"']
    const plan = await planOf({ command, args }, systemWith(system, command))
    expect(plan).toMatchObject({ file: command, args })
    expect(plan.options).not.toHaveProperty('windowsVerbatimArguments')
  })
})

test('uses the default folder of Windows programs if SYSTEMROOT is not set', () => {
  expect(windowsProgram('taskkill.exe', { environment: {} })).toBe(
    'C:\\Windows\\System32\\taskkill.exe',
  )
})

test('inherits the variables that every program needs, and no tokens', () => {
  const environment = { PATH: '/bin', HOME: '/home/me', OPENAI_API_KEY: 'x', SHELL: '() { evil; }' }
  expect(childEnvironment({ platform: 'linux', environment }, [])).toEqual({
    PATH: '/bin',
    HOME: '/home/me',
  })
})

test.each(['linux', 'win32'] as const)('inherits the certificate authorities (%s)', (platform) => {
  const environment = { NODE_EXTRA_CA_CERTS: '/corp.pem', SSL_CERT_FILE: '/ca.pem', CA_TOKEN: 'x' }
  const { CA_TOKEN: _, ...paths } = environment
  expect(childEnvironment({ platform, environment }, [])).toEqual(paths)
})

test('lets later objects override earlier ones, ignores undefined, and changes no input', () => {
  const environment = Object.freeze({ PATH: '/bin' })
  const env = Object.freeze({ PATH: '/own', A: '1' })
  const secrets = Object.freeze({ A: '2', B: undefined })
  expect(childEnvironment({ platform: 'linux', environment }, [env, secrets])).toEqual({
    PATH: '/own',
    A: '2',
  })
})

test('compares names without case on Windows', () => {
  const environment = { Path: 'C:\\bin', SystemRoot: 'C:\\Windows', Secret: 'x' }
  const added = [{ path: 'D:\\own' }]
  expect(childEnvironment({ platform: 'win32', environment }, added)).toEqual({
    path: 'D:\\own',
    SYSTEMROOT: 'C:\\Windows',
  })
})

describe('findCommand on Windows', () => {
  const files = [
    'C:\\nodejs\\node.exe',
    'C:\\nodejs\\npx',
    'C:\\nodejs\\npx.cmd',
    'D:\\srv\\run.bat',
    'D:\\srv\\tool.v2.exe',
  ]
  const find = (command: string): string | undefined =>
    findCommand(
      { ...launchOf({ command }), cwd: 'D:\\srv' },
      { PATH: 'relative;"C:\\nodejs";D:\\srv' },
      systemWith(windows, ...files),
    )

  test.each([
    ['node', 'C:\\nodejs\\node.exe'],
    ['node.exe', 'C:\\nodejs\\node.exe'],
    ['npx', 'C:\\nodejs\\npx.cmd'], // not `npx`, the script for other shells
    ['tool.v2', 'D:\\srv\\tool.v2.exe'],
    ['.\\run', 'D:\\srv\\run.bat'],
    ['C:/nodejs/node', 'C:\\nodejs\\node.exe'],
    ['missing', undefined],
  ])('finds %s as %s', (command, file) => {
    expect(find(command)).toBe(file)
  })

  test('tries the extensions in the order of PATHEXT', () => {
    const system = { platform: 'win32', isExecutable: () => true } as const
    const environment = { PATH: 'C:\\x', PATHEXT: '.CMD;.EXE' }
    expect(findCommand(launchOf({ command: 'a' }), environment, system)).toBe('C:\\x\\a.cmd')
  })
})

describe('findCommand on other systems', () => {
  const find = (command: string): string | undefined =>
    findCommand(
      launchOf({ command }),
      { PATH: ':relative:/a:/b' },
      systemWith(linux, '/b/node', '/srv/bin/run', 'relative/x'),
    )

  test.each([
    ['node', '/b/node'],
    ['bin/run', '/srv/bin/run'],
    ['/b/node', '/b/node'],
    ['x', undefined],
  ])('finds %s as %s', (command, file) => {
    expect(find(command)).toBe(file)
  })
})

describe('cmd.exe runs a batch file on Windows', () => {
  const lineOf = (...args: string[]): string => {
    const command = 'C:\\Program Files\\npx.cmd'
    const plan = createSpawnPlan(launchOf({ command, args }), {}, systemWith(windows, command))
    expect(plan.file).toBe('D:\\Windows\\System32\\cmd.exe')
    expect(plan.options).toMatchObject({ windowsVerbatimArguments: true })
    expect(plan.args.slice(0, 3)).toEqual(['/d', '/s', '/c'])
    return plan.args[3] ?? ''
  }

  test('quotes the command line once, and escapes spaces in the path', () => {
    expect(lineOf()).toBe('"C:\\Program^ Files\\npx.cmd"')
  })

  test.each([
    'plain',
    'two words',
    'a & calc.exe',
    '"quoted" & calc.exe',
    '%PATH%',
    '!x!',
    'C:\\dir\\',
    'a\\"b',
    'x | y > z < w ^ (v)',
    '',
  ])('passes %j unchanged through cmd.exe and the shim', (arg) => {
    const escaped = lineOf(arg).slice('"C:\\Program^ Files\\npx.cmd '.length, -1)
    const forShim = readByCmd(escaped)
    const forProgram = readByCmd(forShim)
    expect(argumentsOf(forProgram)).toEqual([arg])
  })
})

/** Parses a line as cmd.exe does: carets escape. Throws for a special character that is not escaped. */
function readByCmd(line: string): string {
  let out = ''
  for (let at = 0; at < line.length; at++) {
    const character = line[at] ?? ''
    if (character === '^') out += line[++at] ?? ''
    else if ('&|<>()%!"'.includes(character)) throw new Error(`${character} in ${line}`)
    else out += character
  }
  return out
}

/** Splits a command line as the C runtime of Windows does. */
function argumentsOf(line: string): string[] {
  const all: string[] = []
  let one = ''
  let isQuoted = false
  let isOpen = false
  for (let at = 0; at < line.length; at++) {
    const [backslashes = ''] = /^\\*/.exec(line.slice(at)) ?? []
    const next = line[at + backslashes.length]
    if (backslashes !== '') {
      one += '\\'.repeat(next === '"' ? backslashes.length >> 1 : backslashes.length)
      at += backslashes.length - 1
      isOpen = true
      if (next === '"' && backslashes.length % 2 === 1) {
        one += '"'
        at++
      }
    } else if (next === '"') {
      isQuoted = !isQuoted
      isOpen = true
    } else if (next === ' ' && !isQuoted) {
      if (isOpen) all.push(one)
      one = ''
      isOpen = false
    } else {
      one += next ?? ''
      isOpen = true
    }
  }
  return isOpen ? [...all, one] : all
}

async function pathFrom(script: string, limitMs?: number): Promise<string> {
  await using folder = await makeTemporaryFolder()
  const shell = `${folder.path}/shell`
  await writeFile(shell, `#!/bin/sh\n${script}\n`)
  await chmod(shell, 0o755)
  return await readLoginShellPath({ SHELL: shell, PATH: '/usr/bin:/bin' }, limitMs)
}

test('runs the login shell to read PATH', async () => {
  expect(await pathFrom('echo "/asked with:$*"')).toBe('/asked with:-l -c printenv PATH')
  expect(await readLoginShellPath({ SHELL: '/bin/sh', PATH: '/a:/bin' })).toContain('/')
})

test('ignores other output of a profile, and programs that it leaves running', async () => {
  expect(await pathFrom('echo Welcome; sleep 1 & echo /a:/b', 200)).toBe('/a:/b')
})

test.each([
  ['exec sleep 30', 'did not answer within 200 ms'],
  ['exit 1', 'printed no PATH'],
])('rejects a login shell that runs "%s": %s', async (script, why) => {
  await expect(pathFrom(script, 200)).rejects.toThrow(why)
})

test.each([undefined, 'bash', '/nonexistent/shell'])('rejects the shell %o', async (name) => {
  await expect(readLoginShellPath({ SHELL: name })).rejects.toThrow('login shell')
})

test('reads the PATH once for all callers, and again after a failure or forget()', async () => {
  let times = 0
  const path = new LoginShellPath(async () => {
    if (++times === 1) throw new Error('first')
    return `/${times}`
  })
  const first = await Promise.allSettled([path.get(), path.get()])
  expect(first.map(({ status }) => status)).toEqual(['rejected', 'rejected'])
  expect(await Promise.all([path.get(), path.get()])).toEqual(['/2', '/2'])
  path.forget()
  expect(await path.get()).toBe('/3')
})

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

function windowsWith(happens: (what: string) => void): System {
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

describe('the end of a child on Windows', () => {
  test('does not signal a child that exits when its input ends', async () => {
    const { child, exited, happens, events } = childThatEndsOn('stdin ended')
    await endTree(child, exited, { graceMs: 1000, system: windowsWith(happens) })
    expect(events).toEqual(['stdin ended'])
  })

  test('ends any other child by force, with its tree', async () => {
    const { child, exited, happens, events } = childThatEndsOn(TASKKILL)
    await endTree(child, exited, { graceMs: 1, system: windowsWith(happens) })
    expect(events).toEqual(['stdin ended', TASKKILL])
  })

  test('does not wait for a child that cannot be ended', async () => {
    const { child, exited, happens, events } = childThatEndsOn()
    await endTree(child, exited, { graceMs: 1, system: windowsWith(happens) })
    expect(events).toEqual(['stdin ended', TASKKILL, TASKKILL])
  })

  test('ends the servers before this process exits', () => {
    const { child, happens, events } = childThatEndsOn()
    const before = new Set(process.listeners('exit'))
    const undo = endWithProcess(child, windowsWith(happens))
    const added = process.listeners('exit').filter((listener) => !before.has(listener))
    expect(added).toHaveLength(1)
    for (const listener of added) listener.call(process, 0)
    expect(events).toEqual([`before exit ${TASKKILL}`])
    undo()
    expect(process.listeners('exit').filter((listener) => !before.has(listener))).toEqual([])
  })
})

describe('the end of a child on other systems', () => {
  const posix = (kill: System['kill']): System => ({
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
    await endTree(child, exited, { graceMs: 1, system: posix(kill) })
    expect(events).toEqual(['stdin ended', 'SIGTERM -42', 'SIGKILL -42'])
  })

  test('leaves a process that must not be signalled', async () => {
    const { child, exited, happens, events } = childThatEndsOn('stdin ended')
    const kill = (): never => {
      throw Object.assign(new Error('not permitted'), { code: 'EPERM' })
    }
    await endTree(child, exited, { graceMs: 1, system: posix(kill) })
    happens('left')
    expect(events).toEqual(['stdin ended', 'left'])
  })
})
