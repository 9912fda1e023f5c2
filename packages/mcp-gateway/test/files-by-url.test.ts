import { expect, test } from 'vitest'

import { connectForFiles } from './file-clients.ts'
import { giving, serve, textOf } from './served-files.ts'

test('leaves out a file with a forbidden address, and returns the rest of the result', async () => {
  const give = giving({ name: 'x', data: { url: 'http://169.254.169.254/latest/meta-data' } })
  await using at = await serve({ give })
  await using client = await connectForFiles('v2 pinned', at.url)
  const answer = await client.call('give', { message: 'Go' })
  expect(textOf(answer)).toMatch(/^Here they are\n?.*could not be kept/s)
  expect(answer.isError ?? false).toBe(false)
})
