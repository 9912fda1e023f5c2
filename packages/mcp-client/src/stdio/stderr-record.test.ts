import { expect, test } from 'vitest'
import { Redaction } from './redaction.ts'
import { StderrRecord } from './stderr-record.ts'

function recordOf(secret = ''): { record: StderrRecord; lines: string[] } {
  const lines: string[] = []
  const redaction = new Redaction({ secrets: { secret }, env: {}, args: [] })
  return { record: new StderrRecord({ redaction, onLine: (line) => lines.push(line) }), lines }
}

test('lines are told without secrets, blank ones not at all, the last one also unfinished', () => {
  const { record, lines } = recordOf('hunter2')
  record.push(Buffer.from('password hun'))
  record.push(Buffer.from('ter2\n\n  \nunfinished'))
  record.end()
  expect(lines).toEqual(['password [removed]', 'unfinished'])
  expect(record.tail).toBe('password [removed]\n\n  \nunfinished')
})

test('nothing written is nothing told', () => {
  expect(recordOf().record.tail).toBeUndefined()
})

test('of a flood the last 4 KiB are kept, and no half of a secret that was cut', () => {
  const secret = Array.from({ length: 1000 }, (_, index) => index).join('-')
  const { record, lines } = recordOf(secret)
  const chunk = Buffer.from(secret.repeat(30))
  for (let turn = 0; turn < 5; turn++) record.push(chunk)
  expect(record.tail ?? '').not.toMatch(/\d/)
  record.push(Buffer.from(`\n${'y'.repeat(10_000)}`))
  expect(record.tail).toBe('y'.repeat(4096))
  expect(lines.join('')).not.toMatch(/\d/)
})
