import { availableParallelism } from 'node:os'
import { fileURLToPath } from 'node:url'
import { defineConfig } from 'vitest/config'
import type { Reporter } from 'vitest/node'

/** Tests that start servers, several processes, a database or a browser. `pnpm test` leaves them out. */
const SYSTEM = '{packages,apps}/*/{src,test}/**/*.system.test.ts'

/** Other tests that change, or measure, what belongs to the whole process. They start first. */
const IN_A_PROCESS_OF_THEIR_OWN = [
  'apps/probe/test/probe.test.ts', // collects garbage
  'packages/langchain-mcp/test/hidden-names.test.ts', // replaces a module
  'packages/langchain-mcp/test/tool-pins.test.ts', // loads modules again
  'packages/mcp-client/test/two-copies.test.ts', // loads modules again
  'packages/mcp-gateway/src/internal/abortable.test.ts', // collects garbage
  'packages/mcp-gateway/src/gateway/call-spans.test.ts', // sets the tracer of the process
  'packages/mcp-gateway/src/mcp/session-races.test.ts', // counts what is left in the heap
  'packages/mcp-gateway/src/runs/runs.test.ts', // measures the heap
  'packages/mcp-gateway/test/cancelled-runs.test.ts', // reads the warnings of the process
  'packages/mcp-gateway/test/langgraph-sdk-2.test.ts', // replaces a module
  'packages/mcp-gateway/test/unread-answers.test.ts', // measures the heap
  'packages/mcp-client/src/session-state.test.ts', // counts timers
  'packages/mcp-testing/src/proxy/forwarding.test.ts', // counts handles and timers
  'packages/mcp-transport/test/environment.test.ts', // changes the proxy of the process
]

/** Code that was compiled once is not compiled again by each worker, or by each process that a test starts. */
const COMPILED = fileURLToPath(new URL('node_modules/.cache/compiled', import.meta.url))

/** With `LANGGRAPH=lowest`, the tests run on the lowest LangGraph and LangChain that are supported, also in the processes that they start. */
const LOWEST = new URL('packages/internal/src/testing/lowest-peers.ts', import.meta.url).href
const lowest =
  process.env['LANGGRAPH'] === 'lowest'
    ? { execArgv: ['--import', LOWEST], env: { NODE_OPTIONS: `--import=${LOWEST}` } }
    : {}

let isFiltered = false
/** Says at the end of a run that tests were left out, and how to include them. */
const leftOut: Reporter = {
  onInit(vitest) {
    isFiltered = vitest.config.testNamePattern !== undefined
  },
  onTestRunEnd(modules) {
    const skipped = modules.flatMap((module) => [...module.children.allTests('skipped')])
    if (skipped.length === 0 || isFiltered) return
    process.stdout.write(
      'Tests that need redis-server, PostgreSQL or Chromium were left out: one of them is missing. ' +
        'On Debian, .ci/servers and .ci/chromium install them.\n',
    )
  },
}

export default defineConfig({
  resolve: { conditions: ['mcp-source'] },
  ssr: { resolve: { conditions: ['mcp-source'] } }, // both are needed: vitest resolves tests through the ssr environment
  test: {
    reporters: ['default', leftOut],
    maxWorkers: availableParallelism() + 1, // many tests wait for timers or for processes that start
    ...lowest,
    env: { NODE_COMPILE_CACHE: COMPILED, ...lowest.env },
    // These limits end what hangs, also on a machine that has much more to do. No test measures by them.
    hookTimeout: 300_000,
    testTimeout: 300_000,
    expect: { poll: { timeout: 240_000 } },
    restoreMocks: true,
    unstubEnvs: true,
    unstubGlobals: true,
    // Projects run in the order of their names: processes that serve one file each come before the shared ones.
    projects: [
      {
        extends: true,
        test: {
          name: 'isolated',
          include: IN_A_PROCESS_OF_THEIR_OWN,
        },
      },
      {
        extends: true,
        test: {
          name: 'shared',
          include: ['{packages,apps}/*/{src,test}/**/*.test.ts'],
          exclude: ['**/node_modules/**', SYSTEM, ...IN_A_PROCESS_OF_THEIR_OWN],
          isolate: false, // a worker loads modules once for all its files: else this takes a quarter of the time
          typecheck: {
            enabled: true,
            include: ['packages/*/src/**/*.test-d.ts'],
            tsconfig: './tsconfig.types.json',
          },
        },
      },
      {
        extends: true,
        test: {
          name: 'system',
          include: [SYSTEM],
        },
      },
    ],
  },
})
