import { defineConfig } from 'tsdown'

export default defineConfig({
  entry: {
    index: 'src/index.ts',
    'runtime-check': 'src/runtime-check.ts',
    langgraph: 'src/fan-out-tool-calls.ts',
    middleware: 'src/middleware.ts',
    prompts: 'src/prompts.ts',
    resources: 'src/resources.ts',
    skills: 'src/skills.ts',
  },
  fixedExtension: false,
  sourcemap: true, // with the text of the sources, which are not published
  dts: { sourcemap: false },
  exports: {
    devExports: 'mcp-source',
    exclude: ['runtime-check'],
    customExports: (exports) => ({ ...exports, './agent.schema.json': './agent.schema.json' }),
  },
  publint: true,
  attw: { profile: 'esm-only' },
})
