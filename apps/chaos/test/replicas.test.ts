import { expect, test } from 'vitest'
import type { CallEnd } from '../src/replica-calls.ts'
import { violationsOf } from '../src/replicas.ts'

const LOST = 10
const LIVING = 20

type Execution = readonly [node: string, pid: number]

function violations(
  kind: CallEnd['kind'],
  outcome: CallEnd['outcome'],
  executions: readonly Execution[],
): readonly string[] {
  const effects = executions.map(([node, pid]) => ({ key: 'call', node, pid }))
  return violationsOf([{ key: 'call', kind, outcome, ms: 1 }], effects, new Set([LOST]))
}

const whole = (pid: number): readonly Execution[] => [
  ['reserve', pid],
  ['charge', pid],
  ['confirm', pid],
]

test.each([
  ['plain', 'done', whole(LIVING)],
  ['plain', 'unknown', [['reserve', LOST]]],
  ['plain', 'not-executed', []],
  ['conversation', 'done', [['note', LIVING]]],
  ['task', 'done', [['reserve', LOST], ...whole(LIVING)]],
  ['pair', 'unknown', []],
] as const)('allows that a call (%s) is %s after these executions', (kind, outcome, executions) => {
  expect(violations(kind, outcome, executions)).toEqual([])
})

test.each([
  ['plain', 'done', [['reserve', LOST], ...whole(LIVING)], 'a node ran twice'],
  ['key', 'unknown', [...whole(LOST), ...whole(LIVING)], 'a node ran twice'],
  ['task', 'done', [['reserve', LIVING], ...whole(LIVING)], 'a node ran twice'],
  ['task', 'done', [['reserve', LIVING]], 'reported as done, and is not'],
  ['plain', 'not-executed', [['reserve', LIVING]], 'reported as not executed'],
] as const)('reports a call (%s) that is %s', (...row) => {
  const [kind, outcome, executions, problem] = row
  expect(violations(kind, outcome, executions)).toEqual([
    expect.stringMatching(new RegExp(`^call \\(${kind}\\): ${problem}\\. Executed: `)),
  ])
})

test('reports executions of a call that no user made', () => {
  expect(violationsOf([], [{ key: 'other', node: 'note', pid: 1 }], new Set())).toHaveLength(1)
})
