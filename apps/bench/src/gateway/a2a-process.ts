// Agents on the server side of `@a2a-js/sdk`, in a process of their own: `<count>`.
import { startWeatherAgent } from '../interop/a2a-agent.ts'
import { serve } from '../measure/worker.ts'

const agents = await Promise.all(
  Array.from({ length: Number(process.argv[2]) }, () =>
    startWeatherAgent({ version: '1.0', streaming: true }),
  ),
)

const api = { urls: () => agents.map(({ url }) => url) }
export type A2aApi = typeof api
serve(api)
