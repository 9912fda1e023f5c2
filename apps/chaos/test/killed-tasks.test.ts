import { expect, test } from 'vitest'
import { effectViolations } from '../src/killed-tasks.ts'

const FIRST = 10
const SECOND = 20

function violationsOf(...executions: readonly (readonly [node: string, pid: number])[]) {
  const effects = executions.map(([node, pid]) => ({ key: 'call', node, pid }))
  return effectViolations(effects, ['call'], new Set([FIRST]))
}

test('lets a node run again after its process was killed', () => {
  const again = [
    ['reserve', FIRST],
    ['reserve', SECOND],
    ['charge', SECOND],
    ['confirm', SECOND],
  ] as const
  expect(violationsOf(...again)).toEqual([])
})

test.each([
  {
    what: 'a node whose process lives runs again',
    executions: [
      ['reserve', SECOND],
      ['reserve', FIRST],
      ['charge', FIRST],
      ['confirm', FIRST],
    ],
    history: 'reserve 20, reserve 10 (killed), charge 10 (killed), confirm 10 (killed)',
  },
  {
    what: 'a node runs again after a later node has begun',
    executions: [
      ['reserve', FIRST],
      ['charge', FIRST],
      ['reserve', SECOND],
      ['confirm', SECOND],
    ],
    history: 'reserve 10 (killed), charge 10 (killed), reserve 20, confirm 20',
  },
  {
    what: 'a node did not run',
    executions: [
      ['reserve', FIRST],
      ['confirm', FIRST],
    ],
    history: 'reserve 10 (killed), confirm 10 (killed)',
  },
  { what: 'the call did not run', executions: [], history: 'no node ran' },
] as const)('reports that $what', ({ executions, history }) => {
  expect(violationsOf(...executions)).toEqual([`call: ${history}`])
})
