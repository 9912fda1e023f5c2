import { expect, test } from 'vitest'
import { changedEvents } from './faults.ts'

const primer = 'id: a-1\ndata: \n\n'
const progress = 'id: a-2\ndata: {"method":"notifications/progress"}\n\n'
const late = 'data: {"method":"notifications/message"}\n\n'
const answer = 'id: a-3\r\ndata: {"id":1,"result":{"text":"für"}}\r\n\r\n'

/** Returns the complete stream after the change, for each size of its chunks. */
async function changed(
  change: 'truncate' | 'repeat' | 'reorder' | 'repeat-last',
  text: string,
  isEndless = false,
): Promise<string> {
  const bytes = Buffer.from(text)
  const results = new Set<string>()
  for (const size of [1, 2, 7, bytes.length]) {
    async function* chunks(): AsyncGenerator<Buffer> {
      for (let at = 0; at < bytes.length; at += size) yield bytes.subarray(at, at + size)
    }
    const parts: Buffer[] = []
    for await (const part of changedEvents(chunks(), change, isEndless)) parts.push(part)
    results.add(Buffer.concat(parts).toString())
  }
  expect(results.size).toBe(1)
  return [...results].join('')
}

test('repeats each event that has data', async () => {
  await expect(changed('repeat', primer + progress + answer)).resolves.toBe(
    primer + progress + progress + answer + answer,
  )
})

test('repeats the last event', async () => {
  await expect(changed('repeat-last', primer + progress + answer)).resolves.toBe(
    primer + progress + answer + answer,
  )
})

test('swaps neighbours, so that progress comes after the answer', async () => {
  await expect(changed('reorder', primer + progress + answer)).resolves.toBe(
    primer + answer + progress,
  )
  await expect(changed('reorder', progress + late + answer)).resolves.toBe(late + progress + answer)
})

test('truncates the last event', async () => {
  const text = await changed('truncate', primer + progress + answer)
  expect(text.startsWith(primer + progress)).toBe(true)
  const rest = text.slice((primer + progress).length)
  expect(answer.startsWith(rest)).toBe(true)
  expect(rest.length).toBeGreaterThan(20)
  expect(rest).not.toContain('\r\n\r\n')
})

test('truncates the first event with data of a stream without an end', async () => {
  const text = await changed('truncate', primer + progress + answer, true)
  expect(text.startsWith(primer)).toBe(true)
  expect(progress.startsWith(text.slice(primer.length))).toBe(true)
  expect(text.length).toBeLessThan((primer + progress).length)
})
