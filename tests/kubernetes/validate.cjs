// validate.cjs - objects of a cluster against Kubernetes' JSON schemas, by the validator Ajv.
// SPDX-License-Identifier: Apache-2.0
//
// Usage: node validate.cjs FOLDER_WITH_NODE_MODULES < OBJECTS
//
// OBJECTS is a JSON list; what is printed is one of as many sentences, "" for an object that fits.
"use strict";
const { createRequire } = require("module");
const fs = require("fs");
const path = require("path");

const load = createRequire(path.join(path.resolve(process.argv[2]), "any.js"));

function judge(object) {
    const models = load(`kubernetes-models/${object.apiVersion}/${object.kind}`);
    try {
        new models[object.kind](object).validate();
        return "";
    } catch (error) {
        return error.message;
    }
}

console.log(JSON.stringify(JSON.parse(fs.readFileSync(0, "utf8")).map(judge)));
