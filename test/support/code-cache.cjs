const vm = require('node:vm');

/**
 * jest compiles every module anew for each test file, since each has a context of its own. With this, a process keeps
 * V8's code of each text that it has compiled for the next file.
 *
 * @type {Map<string, Buffer>}
 */
const codes = new Map();

vm.SourceTextModule = class extends vm.SourceTextModule {
  /**
   * @param {string} text
   * @param {import('node:vm').SourceTextModuleOptions} options
   */
  constructor(text, options) {
    const cachedData = codes.get(text);
    super(text, { ...options, cachedData });
    if (cachedData === undefined) codes.set(text, this.createCachedData());
  }
};

const { compileFunction } = vm;
vm.compileFunction = (text, parameters, options) => {
  const cachedData = codes.get(text);
  const compiled = compileFunction(text, parameters, { ...options, cachedData, produceCachedData: cachedData === undefined });
  if (compiled.cachedData !== undefined) codes.set(text, compiled.cachedData);
  return compiled;
};
