import { expect, test } from 'vitest'
import { assertOptions, check } from './index.ts'
import type { Check, Checks } from './index.ts'

interface Sample {
  readonly mode?: 'fast' | 'slow' | (() => string) | undefined
  readonly timeoutMs?: number | undefined
  readonly timeouts?: { readonly connectMs?: number | undefined } | undefined
  readonly token?: string | undefined
  readonly store?: object | undefined
  readonly names?: readonly string[] | undefined
  readonly quiet?: boolean | undefined
  readonly tools?: Readonly<Record<string, { readonly hidden?: boolean }>> | undefined
  readonly keys?: readonly (string | { readonly id: string })[] | undefined
}

const CHECKS: Checks<Sample> = {
  mode: check.or(check.oneOf('fast', 'slow'), check.func),
  timeoutMs: check.number(1),
  timeouts: check.section({ connectMs: check.number() }),
  token: check.text,
  store: check.methods('read', 'write'),
  names: check.listOf(check.text),
  quiet: check.flag,
  tools: check.mapOf(check.section({ hidden: check.flag })),
  keys: check.or(check.func, check.listOf(check.or(check.text, check.section({ id: check.text })))),
}

function problemOf(given: unknown, checks: Readonly<Record<string, Check>>): string | undefined {
  let found: string | undefined
  try {
    assertOptions(({ message }) => new Error((found = message)), given, checks)
  } catch {
    return found
  }
  return undefined
}

class Store {
  read(): void {}
  write(): void {}
}

test.each([
  [{}],
  [{ mode: undefined, timeoutMs: undefined }],
  [
    {
      mode: 'slow',
      timeoutMs: Infinity,
      timeouts: { connectMs: 0 },
      names: [],
      quiet: false,
      tools: { a: {} },
      keys: ['a', { id: 'b' }],
    },
  ],
  [{ mode: () => 'fast', store: new Store(), timeouts: { connectMs: undefined } }],
])('accepts %o', (given) => {
  expect(problemOf(given, CHECKS)).toBeUndefined()
})

test.each([
  [{ mod: 'fast' }, 'there is no option "mod". Did you mean "mode"?'],
  [{ Time_Out_Ms: 5 }, 'there is no option "Time_Out_Ms". Did you mean "timeoutMs"?'],
  [
    { frobnicate: undefined },
    'there is no option "frobnicate". The options are mode, timeoutMs, timeouts, token, store, names, quiet, tools, keys',
  ],
  [{ constructor: 1 }, 'there is no option "constructor"'],
  [
    { timeouts: { conectMs: 5 } },
    'there is no option "timeouts.conectMs". Did you mean "timeouts.connectMs"?',
  ],
  [
    { timeouts: { x: 5 } },
    'there is no option "timeouts.x". The options of "timeouts" are connectMs',
  ],
  [
    { mode: 'Fast' },
    `option "mode" must be 'fast', 'slow' or a function, not 'Fast'. Did you mean 'fast'?`,
  ],
  [{ mode: 'x'.repeat(99) }, `not '${'x'.repeat(40)}…'`],
  [{ mode: null }, `option "mode" must be 'fast', 'slow' or a function, not null`],
  [{ timeoutMs: 0 }, 'option "timeoutMs" must be a number from 1, not 0'],
  [{ timeoutMs: NaN }, 'option "timeoutMs" must be a number from 1, not NaN'],
  [{ timeoutMs: '5' }, 'option "timeoutMs" must be a number from 1, not a string'],
  [{ timeouts: 5 }, 'option "timeouts" must be { connectMs }, not 5'],
  [{ token: '' }, 'option "token" must be a string that is not empty, not an empty string'],
  [
    { store: { read() {} } },
    'option "store" must be an object with read() and write(), not an object',
  ],
  [{ names: ['a', 1] }, 'option "names[1]" must be a string that is not empty, not 1'],
  [
    { names: 'a' },
    'option "names" must be a list, each item a string that is not empty, not a string',
  ],
  [{ tools: { 'a/b': { hiden: true } } }, 'no option "tools["a/b"].hiden". Did you mean'],
  [{ tools: { a: true } }, 'option "tools.a" must be { hidden }, not true'],
  [{ keys: ['a', { di: 'x' }] }, 'no option "keys[1].di". Did you mean "keys[1].id"?'],
  [{ keys: [{ id: '' }] }, 'option "keys[0].id" must be a string that is not empty'],
  [{ quiet: 1 }, 'option "quiet" must be true or false, not 1'],
  [
    'x',
    'the options must be { mode, timeoutMs, timeouts, token, store, names, quiet, tools, keys }, not a string',
  ],
  [[], 'not a list'],
])('refuses %o', (given, message) => {
  expect(problemOf(given, CHECKS)).toContain(message)
})

test('finds an option in the section that has it', () => {
  expect(problemOf({ connectMs: 5 }, CHECKS)).toContain('Did you mean "timeouts.connectMs"?')
  const checks = { a: check.section({ max: check.number() }), ...CHECKS }
  const both = { ...checks, b: check.section({ max: check.number() }) }
  expect(problemOf({ max: 5 }, both)).toContain('Did you mean "a.max" or "b.max"?')
})

test('says what to write in place of an option of another library', () => {
  const checks = { retries: check.foreign('Use "mode"'), ...CHECKS }
  expect(problemOf({ retries: 5 }, checks)).toBe('there is no option "retries". Use "mode"')
  expect(problemOf({ toString: 5 }, checks)).toContain('The options are mode')
  expect(problemOf({ retrie: 5 }, checks)).not.toContain('Did you mean')
})

test('suggests of two similar names the one that accepts the value', () => {
  expect(problemOf({ timeout: 5 }, CHECKS)).toContain('"timeoutMs"')
  expect(problemOf({ timeout: {} }, CHECKS)).toContain('"timeouts"')
})

test('names an option that is missing', () => {
  const checks: Readonly<Record<string, Check>> = { token: check.required(check.text) }
  const problem = 'option "token" is missing: it must be a string that is not empty'
  expect(problemOf({}, checks)).toBe(problem)
  expect(problemOf({ token: undefined }, checks)).toBe(problem)
})

test('shows no string that may be a secret', () => {
  const given = { timeoutMs: 'hunter2', quiet: 'hunter2', store: 'hunter2', timeouts: 'hunter2' }
  for (const [key, value] of Object.entries(given)) {
    expect(problemOf({ [key]: value }, CHECKS)).not.toContain('hunter2')
  }
})

test('throws a TypeError with the code CONFIG, which names the owner', () => {
  expect(() => assertOptions('sample()', { mod: 'fast' }, CHECKS)).toThrow(
    expect.objectContaining({
      name: 'TypeError',
      code: 'CONFIG',
      message: expect.stringContaining('sample(): there is no option "mod". Did you mean "mode"?'),
    }),
  )
})
