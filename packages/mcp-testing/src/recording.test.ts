import { expect, test } from 'vitest'
import { Recording } from './recording.ts'

test('finds an earlier entry', async () => {
  const recording = new Recording<number>('numbers')
  recording.add(3)
  await expect(recording.waitFor((n) => n === 3)).resolves.toBe(3)
})

test('checks an entry again when it has changed', async () => {
  const recording = new Recording<{ status?: number }>('exchanges')
  const entry: { status?: number } = {}
  recording.add(entry)
  const answered = recording.waitFor((one) => one.status === 200)
  entry.status = 200
  recording.changed(entry)
  await expect(answered).resolves.toBe(entry)
})

test('rejects a wait at its time limit', async () => {
  const recording = new Recording<number>('numbers')
  await expect(recording.waitFor(() => false, { timeoutMs: 1 })).rejects.toThrow('numbers')
})

test('rejects a wait when the resource is disposed of', async () => {
  const recording = new Recording<number>('numbers')
  const wait = recording.waitFor(() => false)
  recording.close()
  await expect(wait).rejects.toThrow('Disposed')
  await expect(recording.waitFor(() => false)).rejects.toThrow('No numbers matched')
})
