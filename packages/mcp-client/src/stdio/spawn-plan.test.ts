import { describe, expect, test } from 'vitest'
import { spawnPlan } from './spawn-plan.ts'

const linux = { platform: 'linux', comSpec: '' } as const
const windows = { platform: 'win32', comSpec: 'C:\\Windows\\System32\\cmd.exe' } as const

test.each([
  ['/usr/bin/npx', linux],
  ['/srv/run.cmd', linux],
  ['C:\\nodejs\\node.exe', windows],
])('%s is started as it is', (file, options) => {
  const args = ['a b', '%PATH%', '"']
  expect(spawnPlan(file, args, options)).toEqual({ file, args, windowsVerbatimArguments: false })
})

describe('a batch file of Windows is run by cmd.exe', () => {
  const lineOf = (...args: string[]): string => {
    const plan = spawnPlan('C:\\Program Files\\npx.cmd', args, windows)
    expect(plan).toMatchObject({ file: windows.comSpec, windowsVerbatimArguments: true })
    expect(plan.args.slice(0, 3)).toEqual(['/d', '/s', '/c'])
    return plan.args[3] ?? ''
  }

  test('the whole line is quoted once, the path with blanks in it escaped', () => {
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
  ])('cmd.exe and the shim read %j, and the program gets exactly that', (arg) => {
    const escaped = lineOf(arg).slice('"C:\\Program^ Files\\npx.cmd '.length, -1)
    const forShim = readByCmd(escaped)
    const forProgram = readByCmd(forShim)
    expect(argumentsOf(forProgram)).toEqual([arg])
  })

  test('an argument with a line break is refused', () => {
    expect(() => lineOf('a\r\ncalc.exe')).toThrow(TypeError)
  })
})

/** One reading of a line by cmd.exe: carets escape. Fails where something would have meant something. */
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

/** As the C runtime of Windows takes a command line apart. */
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
