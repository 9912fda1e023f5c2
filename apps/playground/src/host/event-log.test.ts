import { expect, test } from 'vitest'
import { EventLog } from './event-log.ts'

test('returns the events after one, and nothing when some of them are forgotten', () => {
  const log = new EventLog()
  expect(log.after(0)).toEqual([])
  for (let count = 1; count <= 5002; count++) {
    log.append({ type: 'notice', level: 'info', text: String(count) })
  }
  expect(log.after(5000)?.map(({ id }) => id)).toEqual([5001, 5002])
  expect(log.after(5002)).toEqual([])
  expect(log.after(2)).toHaveLength(5000)
  expect(log.after(1)).toBeUndefined()
  expect(log.after(9999)).toBeUndefined()
  expect(log.state.lastEventId).toBe(5002)
})
