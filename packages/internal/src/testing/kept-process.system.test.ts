import { expect, test } from 'vitest'
import { startKept } from './kept-process.ts'

test('knows the process id of a server that is ready before the shell has written it', async () => {
  // `eval` starts no program, so that it often writes first.
  const command = ['eval', 'echo ready; exec sleep 300']
  const starts = Array.from({ length: 100 }, () =>
    startKept(command, {
      readyLine: 'ready',
      startMs: 240_000,
      killSignal: 'KILL',
      uid: undefined,
    }),
  )
  const processes = await Promise.all(starts)
  await Promise.all(processes.map((one) => one.kill()))
  // A signal to process 0 would stop the tests themselves.
  expect(processes.filter(({ pid }) => pid === 0)).toEqual([])
})
