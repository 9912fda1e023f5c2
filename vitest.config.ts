import { defineConfig } from 'vitest/config'

export default defineConfig({
  resolve: { conditions: ['mcp-source'] },
  ssr: { resolve: { conditions: ['mcp-source'] } }, // both are needed: vitest resolves tests through the ssr environment
  test: {
    include: ['{packages,apps}/*/src/**/*.test.ts', '{packages,apps}/*/test/**/*.test.ts'],
    typecheck: {
      enabled: true,
      include: ['packages/*/src/**/*.test-d.ts'],
      tsconfig: './tsconfig.types.json',
    },
  },
})
