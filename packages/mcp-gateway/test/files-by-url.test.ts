import { expect, test } from 'vitest'

import { connectForFiles } from './file-clients.ts'
import { image, giving, serve, textOf } from './served-files.ts'

test('fetches files that an agent gives by URL through the guarded fetch', async () => {
  const asked: string[] = []
  const give = giving({ name: 'chart.png', data: { url: 'https://files.example/chart.png' } })
  const artifacts = {
    fetch: async (url: string | URL | Request): Promise<Response> => {
      asked.push(url instanceof Request ? url.url : String(url))
      return new Response(image(100))
    },
  }
  await using at = await serve({ give }, { artifacts })
  await using client = await connectForFiles('v1', at.url)
  const { content } = await client.call('give', { message: 'Go' })
  expect(content.at(-1)).toMatchObject({ type: 'image', mimeType: 'image/png' })
  expect(asked).toEqual(['https://files.example/chart.png'])
})

test('leaves out a file with a forbidden address, and returns the rest of the result', async () => {
  const give = giving({ name: 'x', data: { url: 'http://169.254.169.254/latest/meta-data' } })
  await using at = await serve({ give })
  await using client = await connectForFiles('v2 pinned', at.url)
  const answer = await client.call('give', { message: 'Go' })
  expect(textOf(answer)).toMatch(/^Here they are\n?.*could not be kept/s)
  expect(answer.isError ?? false).toBe(false)
})
